package trust_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// externalKey is the key of an account at an API that others operate.
const externalKey = "canary-of-the-external-api"

// externalAPI is an engine that others operate. It answers by the first part of the path, and records how often a request has the key.
type externalAPI struct {
	address string
	answers map[string]string // by the first part of the path; plainOK for others
	probes  map[string]string // likewise, for health checks

	mu      sync.Mutex     // guards the fields below
	withKey map[string]int // requests with the key, by the first part of the path
	without []string       // requests without it
}

func startExternalAPI(t testing.TB) *externalAPI {
	e := &externalAPI{answers: map[string]string{}, probes: map[string]string{}, withKey: map[string]int{}}
	e.address = testkit.Serve(t, func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(4 * testkit.Timeout))
		for br := bufio.NewReader(c); ; {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if _, err := io.WriteString(c, e.answer(r)); err != nil {
				return
			}
		}
	})
	return e
}

func (e *externalAPI) answer(r *http.Request) string {
	part, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	e.mu.Lock()
	if r.Header.Get("Authorization") == "Bearer "+externalKey {
		e.withKey[part]++
	} else {
		e.without = append(e.without, r.Method+" "+r.URL.Path)
	}
	e.mu.Unlock()
	known := e.answers
	if isProbe(r) {
		known = e.probes
	}
	if text, ok := known[part]; ok {
		return text
	}
	return plainOK
}

// asked returns how many requests came with the key, for the first part of a path.
func (e *externalAPI) asked(part string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.withKey[part]
}

// leads are answers that lead a client elsewhere, or that repeat its key.
func leads(elsewhere string) map[string]string {
	to := "http://" + elsewhere + "/v1/chat/completions"
	answer := func(status string, lines ...string) string { return wiretest.EncodeResponse(status, `{}`, lines...) }
	all := map[string]string{
		"location":         answer("200 OK", "Content-Type: application/json", "Location: "+to, "Content-Location: "+to, "Refresh: 0; url="+to),
		"created":          answer("201 Created", "Content-Type: application/json", "Location: "+to),
		"alt-svc":          answer("200 OK", "Content-Type: application/json", fmt.Sprintf("Alt-Svc: h2=%q; ma=86400, http/1.1=%q", elsewhere, elsewhere), "Alt-Used: "+elsewhere),
		"misdirected":      answer("421 Misdirected Request", fmt.Sprintf("Alt-Svc: http/1.1=%q", elsewhere)),
		"challenge":        answer("401 Unauthorized", fmt.Sprintf("WWW-Authenticate: Bearer realm=%q", to), "Location: "+to),
		"proxy challenge":  answer("407 Proxy Authentication Required", "Proxy-Authenticate: Basic realm=x", "Location: "+to),
		"unavailable":      answer("503 Service Unavailable", "Retry-After: 0", "Location: "+to),
		"choices":          answer("300 Multiple Choices", "Location: "+to),
		"use proxy":        answer("305 Use Proxy", "Location: http://"+elsewhere+"/"),
		"early hints":      "HTTP/1.1 103 Early Hints\r\nLink: <" + to + ">; rel=preconnect\r\n\r\n" + plainOK,
		"switch":           "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
		"web page":         wiretest.EncodeResponse("200 OK", `<html><meta http-equiv="refresh" content="0; url=`+to+`">`, "Content-Type: text/html"),
		"coding":           answer("200 OK", "Content-Type: application/json", "Content-Encoding: gzip", "Location: "+to),
		"no head":          "location: " + to + "\r\n\r\n",
		"two heads":        "HTTP/1.1 302 Found\r\nLocation: " + to + "\r\nLocation: /\r\nContent-Length: 0\r\n\r\n" + plainOK,
		"stream":           wiretest.EncodeResponse("200 OK", "data: {\"location\":\""+to+"\"}\n\ndata: [DONE]\n\n", "Content-Type: text/event-stream", "Location: "+to),
		"key in a failure": wiretest.EncodeResponse("500 Internal Server Error", `{"error":{"message":"`+externalKey+`"}}`, "X-Key: "+externalKey),
		"key in a refusal": wiretest.EncodeResponse("401 Unauthorized", `{"error":{"message":"Incorrect API key provided: `+externalKey+`"}}`, `WWW-Authenticate: Bearer error="`+externalKey+`"`),
		"key in a 403":     wiretest.EncodeResponse("403 Forbidden", externalKey),
		"key in a 404":     wiretest.EncodeResponse("404 Not Found", externalKey),
		"key in a 429":     wiretest.EncodeResponse("429 "+externalKey, externalKey, "Retry-After: "+externalKey),
		"key in headers": answer("200 OK", "Content-Type: application/json", "Set-Cookie: "+externalKey, "Authorization: Bearer "+externalKey, "X-Request-Id: "+externalKey,
			"X-Colonnade-Reason: "+externalKey, "X-Colonnade-Verdict: ooc;reason="+externalKey),
		"key in the head": "HTTP/1.1 " + externalKey + "\r\n\r\n",
	}
	for _, status := range []string{"301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"} {
		all["moved "+status[:3]] = answer(status, "Location: "+to)
		all["moved "+status[:3]+" with the key"] = answer(status, "Location: "+to+"?key="+externalKey)
		all["moved "+status[:3]+" without a scheme"] = answer(status, "Location: //"+elsewhere+"/v1/chat/completions")
	}
	return all
}

// The key of an external API goes to no host but that of its document, whatever that answers to requests and health checks, and neither does
// a request. No other node, log, event, page or client gets the key.
func TestKeyOfAnExternalAPIGoesNowhereElse(t *testing.T) {
	t.Parallel()
	var visits atomic.Int64
	elsewhere := testkit.Serve(t, func(c net.Conn) {
		visits.Add(1)
		_, _ = io.WriteString(c, plainOK)
	})
	api := startExternalAPI(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "api"), []byte(externalKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var documents strings.Builder
	document := func(part string) {
		fmt.Fprintf(&documents, "key: models/%s\nretry: {errors: 0}\n---\nkey: endpoints/ams/%[1]s\nurl: http://%[2]s/%[1]s\npool: %[1]s\nexternal: true\ncredential: file:api\n---\n", part, api.address)
	}
	names := map[string]string{}
	for name, text := range leads(elsewhere) {
		part := strings.ReplaceAll(name, " ", "-")
		names[part], api.answers[part] = name, text
		document(part)
	}
	for _, status := range []string{"301", "302", "307", "308"} { // of health checks
		part := "probe-" + status
		api.probes[part] = wiretest.EncodeResponse(status+" Moved", "", "Location: http://"+elsewhere+"/v1/models")
		document(part)
	}
	logged := &testkit.SyncBuffer{}
	c := onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}, CredentialsDir: dir}
	c.Logger = func(name string) *slog.Logger {
		return slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug})).With("from", name)
	}
	f := fleettest.Start(t, c, strings.TrimSuffix(documents.String(), "---\n"))
	watchNodes(f, 8)
	ams := f.Colos[0]
	for part, name := range names {
		for _, body := range []string{`{"model":"` + part + `","messages":[]}`, `{"model":"` + part + `","stream":true,"messages":[]}`} {
			if a := f.Chat(body, "x-colonnade-queue", "never"); strings.Contains(fmt.Sprint(a), externalKey) {
				t.Errorf("%s: the client got the key: %+v", name, a)
			}
			// The same as another node gets it.
			token := ownToken()
			token.Model, token.Wait = part, hop.WaitNever
			signed := f.SignHop(token, hop.Binding{Audience: ams.Node, Method: "POST", Target: fleettest.ChatPath, AppendHeader: fleettest.JSONHeader, Body: []byte(body)}, time.Now())
			other := wiretest.Dial(t, ams.Address)
			other.Post(fleettest.ChatPath, body, "x-colonnade-hop: "+signed)
			a := other.Read()
			_ = other.Close()
			if a.Status == 0 || a.Status == 403 || strings.Contains(fmt.Sprint(a), externalKey) {
				t.Errorf("%s: the other node got %+v", name, a)
			}
		}
		if api.asked(part) == 0 {
			t.Errorf("%s: the API got no request with its key", name)
		}
	}
	for _, part := range []string{"probe-301", "probe-308"} {
		testkit.WaitFor(t, "a health check of "+part, func() bool { return api.asked(part) > 0 })
	}
	if n := visits.Load(); n > 0 {
		t.Errorf("%d connections to a host that no document names", n)
	}
	api.mu.Lock()
	if len(api.without) > 0 {
		t.Errorf("requests without the key: %q", api.without)
	}
	api.mu.Unlock()
	_ = f.Chat(`{"model":"location","messages":[]}`, "x-request-id", "the-last-one")
	if e := f.FinalEvent(analytics.KindInference, "the-last-one"); !e.ExternalEndpoint || e.Endpoint != "location" {
		t.Errorf("the event %+v", e)
	}
	searchPlan(f, externalKey)
	search(f, logged, f.Dir, externalKey)
}

// searchPlan looks for a text in the page of a plan.
func searchPlan(f *fleettest.Fleet, text string) {
	f.T.Helper()
	if page := string(f.Page(f.Entry.Admin, "/debug/plan?model=location")); strings.Contains(page, text) || !strings.Contains(page, `"ams"`) {
		f.T.Errorf("the plan: %s", page)
	}
}

// When the document of an endpoint names another host, the one before gets neither requests nor health checks with the key any more.
func TestKeyOfAnExternalAPILeavesWithItsDocument(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "api"), []byte(externalKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, after := startExternalAPI(t), startExternalAPI(t)
	document := func(e *externalAPI) string {
		return fmt.Sprintf("key: endpoints/ams/api\nurl: http://%s/x\npool: own\nexternal: true\ncredential: file:api\nhealth: {interval: 10ms}\n---\nkey: models/own\n", e.address)
	}
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}, CredentialsDir: dir}, document(before))
	f.WatchShared(8)
	ask := func() error {
		if a := f.Chat(fleettest.StubBody); a.Status != 200 {
			return errors.New(a.Body)
		}
		return nil
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	f.ApplyAndWait(document(after), func() bool { return after.asked("x") > 0 })
	page := func() string { return string(f.Page(f.Colos[0].Admin, "/debug/pools")) }
	testkit.WaitFor(t, "the old host to leave the pool", func() bool { return !strings.Contains(page(), before.address) })
	old, since := before.asked("x"), after.asked("x")
	for range 10 {
		if err := ask(); err != nil {
			t.Error(err)
		}
	}
	testkit.WaitFor(t, "further health checks", func() bool { return after.asked("x") > since+20 })
	if n := before.asked("x") - old; n > 0 {
		t.Errorf("the host of the document before got %d requests with the key", n)
	}
}
