package simengine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait for something that should happen within milliseconds.
const patience = 30 * time.Second

// fast configures an engine that takes no time.
func fast() simengine.Config { return simengine.Config{TTFT: -1, ITL: -1} }

// start serves an engine on a loopback listener until the test ends.
func start(t *testing.T, c simengine.Config) (*simengine.Engine, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := simengine.New(c)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- simengine.Serve(ctx, ln, e) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
		e.Close()
	})
	return e, ln.Addr().String()
}

// post sends a JSON request over a connection of its own.
func post(t *testing.T, addr, path, body string) *http.Response {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Post("http://"+addr+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatalf("POST %s: %v", path, err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v after %q", err, b)
	}
	return string(b)
}

// answerOf posts and decodes the answer's JSON.
func answerOf(t *testing.T, addr, path, body string) map[string]any {
	t.Helper()
	return decode(t, readAll(t, post(t, addr, path, body)))
}

func decode(t *testing.T, s string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(s), &m); err != nil {
		t.Fatalf("%v in %q", err, s)
	}
	return m
}

// dig follows a path of keys and indices through decoded JSON.
func dig(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

type sse struct{ name, data string }

func eventsOf(s string) []sse {
	var all []sse
	for block := range strings.SplitSeq(s, "\n\n") {
		var e sse
		for line := range strings.SplitSeq(block, "\n") {
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = v
			}
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				e.data = v
			}
		}
		if e != (sse{}) {
			all = append(all, e)
		}
	}
	return all
}

// raw is a client that sends exactly the bytes of its caller.
type raw struct {
	*net.TCPConn
	t *testing.T
}

func dial(t *testing.T, addr string) raw {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return raw{c.(*net.TCPConn), t}
}

func (c raw) post(path, body string) {
	c.t.Helper()
	_, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: engine\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, len(body), body)
	if err != nil {
		c.t.Fatal(err)
	}
}

// rest reads until the engine closes the connection.
func (c raw) rest() string {
	c.t.Helper()
	b, err := io.ReadAll(c)
	if err != nil {
		c.t.Fatalf("%v after %d bytes: %.300q", err, len(b), b)
	}
	return string(b)
}

// await reads until want has arrived, and no further.
func (c raw) await(want string) {
	c.t.Helper()
	var got bytes.Buffer
	for !bytes.HasSuffix(got.Bytes(), []byte(want)) {
		if _, err := io.CopyN(&got, c, 1); err != nil {
			c.t.Fatalf("%v, waiting for %q after %.300q", err, want, got.String())
		}
	}
}

// waitForStats waits until the counts satisfy ok.
func waitForStats(t *testing.T, e *simengine.Engine, what string, ok func(simengine.Stats) bool) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("stats are %+v", e.Stats())
		}
	}()
	testkit.WaitFor(t, what, func() bool { return ok(e.Stats()) })
}
