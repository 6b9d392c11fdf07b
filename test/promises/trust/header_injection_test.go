package trust_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// taggedModel has another name at the engine "own", and a header that is forwarded.
const taggedModel = "\n---\nkey: models/tagged\nupstream_name: org/name+v1\npool: own\nforward_headers: [x-tag]\n"

// Nothing in a header, a target or a body becomes a header line of a request that is sent on.
func TestNoHeaderInjection(t *testing.T) {
	engine, documents := startTape(t)
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, documents+taggedModel)
	watchNodes(f, 16)
	const body = `{"model":"tagged","messages":[]}`
	colo := f.Colos[0]
	token := func() string {
		return "x-colonnade-hop: " + signToken(f, colo.Node, fleettest.ChatPath, body, time.Now())
	}
	for _, name := range []string{"x-request-id", "User-Agent", "x-tag"} { // those that are sent on; httpguard tests all control characters
		for _, evil := range []string{"a\rX-Evil: 1", "a\nX-Evil: 1", "a\r\n X-Evil: 1", "a\x00X-Evil: 1"} {
			for _, address := range []string{f.Entry.Address, colo.Address} {
				w := wiretest.Dial(t, address)
				w.Send(firstLine, []string{"Host: fleet", token(), name + ": " + evil, fmt.Sprintf("Content-Length: %d", len(body))}, body)
				if a := w.Read(); a.Status != 400 || strings.Contains(fmt.Sprint(a.Header), "Evil") {
					t.Errorf("%s: %q: answered %d %v", name, evil, a.Status, a.Header)
				}
				if how := w.End(); how != "closed" {
					t.Errorf("%s: %q: the connection ended: %s", name, evil, how)
				}
				w.Close()
			}
		}
	}
	engine.check(t, "control characters")
	// Escapes stay escapes, or are refused.
	for _, model := range []string{`tagged\r\nX-Evil: 1`, `tagged\u000d\u000aX-Evil: 1`, `tagged\u0000`, `tagged\n`, `tagged%0d%0aX-Evil: 1`} {
		if a := f.RawChat(strings.Replace(body, "tagged", model, 1)); a.Status != 404 && a.Status != 400 || strings.Contains(fmt.Sprint(a.Header), "Evil") {
			t.Errorf("model %s: %d %v", model, a.Status, a.Header)
		}
	}
	for _, target := range []string{"/v1/realtime?model=tagged%0d%0aX-Evil:1", "/v1/models/tagged%0d%0aX-Evil:1", "/v1/nothing%0d%0aX-Evil:1", "/v1/realtime?model=tagged%00"} {
		w := wiretest.Dial(t, f.Entry.Address)
		w.Send("GET "+target+" HTTP/1.1", []string{"Host: fleet", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}, "")
		if a := w.Read(); a.Status != 404 && a.Status != 400 || strings.Contains(fmt.Sprint(a.Header), "Evil") {
			t.Errorf("%s: %d %v", target, a.Status, a.Header)
		}
		w.Close()
	}
	engine.check(t, "escapes")
	// A header that the model forwards is sent on unchanged, and no other.
	if a := f.RawChat(body, "x-tag: a\tb \xff%0d%0a", "x_tag: c", "x-tag2: d", "Accept-Encoding: gzip, br", "X-Evil: 1"); a.Status != 200 {
		t.Errorf("answered %d %q", a.Status, a.Body)
	}
	heard, _ := engine.rewind()
	if len(heard) != 1 || !strings.Contains(heard[0], "\r\nx-tag: a\tb \xff%0d%0a\r\n") || strings.Contains(heard[0], "Evil") || strings.Contains(heard[0], "gzip") ||
		!strings.HasSuffix(heard[0], `{"model":"org/name+v1","messages":[]}`) {
		t.Errorf("the engine got %q", heard)
	}
}

// A credential of more than one line is never sent, and appears in no response.
func TestCredentialOfTwoLines(t *testing.T) {
	t.Parallel()
	engine, documents := startTape(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "two-lines"), []byte("canary\r\nX-Evil: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}, CredentialsDir: dir}, strings.Replace(documents, "pool: own", "pool: own\ncredential: file:two-lines", 1))
	f.WatchShared(8)
	if a := f.Chat(fleettest.StubBody); a.Status != 502 && a.Status != 503 || strings.Contains(a.Body, "canary") { // health checks fail, too
		t.Errorf("answered %d %s", a.Status, a.Body)
	}
	engine.check(t, "a credential of two lines")
}

// Nothing in the head of an engine's response becomes a header line for the client.
func TestNoHeaderInjectionByEngine(t *testing.T) {
	answers := make(chan string, 1)
	address := testkit.Serve(t, func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(testkit.Timeout))
		if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			head := "HTTP/1.1 200 OK\r\n"
			if r.Method == http.MethodPost {
				head = <-answers
			}
			_, _ = io.WriteString(c, head+"Connection: close\r\nContent-Length: 2\r\n\r\n{}")
		}
	})
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, fleettest.StubEngineDocuments("http://"+address)+"retry: {errors: 0}\n")
	f.Watch(8)
	for _, c := range []struct {
		head   string
		status int
	}{
		{"HTTP/1.1 200 OK\r\nContent-Type: application/json\rX-Evil: 1\r\n", 502},
		{"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n X-Evil: 1\r\n", 502},
		{"HTTP/1.1 200 OK\r\nX-Evil: 1\r\nLocation: /evil\r\nSet-Cookie: Evil=1\r\nTrailer: X-Evil\r\nConnection: x-evil\r\nContent-Type: application/json; a=\"b\"\r\n", 200},
		{"HTTP/1.1 302 Found\r\nLocation: http://evil/\r\n", 502},
		{"HTTP/1.1 400 \r\nX-Evil: 1\r\nWWW-Authenticate: Evil\r\n", 400},
	} {
		answers <- c.head
		w := f.BeginChat(fleettest.StubBody)
		a := w.Read()
		if a.Status != c.status || strings.Contains(strings.ToLower(fmt.Sprint(a.Header)), "evil") {
			t.Errorf("%q: answered %d %v %.200q", c.head, a.Status, a.Header, a.Body)
		}
		w.Close()
	}
}
