package refusals_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// A session is refused before the upgrade, by a plain HTTP response with an error object.
func TestSessionRefusedBeforeUpgrade(t *testing.T) {
	key, doc := fleettest.NewAccountKey(t, "alice", "models: [demo-realtime, full, gone, demo-chat]")
	none, noneDoc := fleettest.NewAccountKey(t, "bob", "limits: {concurrent: 0}")
	f := fleettest.StartClosed(t, onebox.Config{Engine: fleettest.QuickEngine(1), Colos: []string{"ams"}}, doc+noneDoc+`
key: defaults
origins: ['https://app.example.com']
---
key: pools/demo
queue: {limit: 0}
---
key: models/full
type: realtime
pool: demo
---
key: models/gone
type: realtime
---
key: models/secret
type: realtime
pool: demo
`)
	f.Key = key
	f.Watch(4)
	bearer := []string{"Authorization", "Bearer " + key}
	refused := func(model string, status, number int, reason string, headers ...string) wiretest.Response {
		t.Helper()
		a := f.ExpectRefused(model, status, append(headers, "x-request-id", "refused-"+model)...)
		if e := a.APIError(t); e.Number != number || e.Reason != reason || e.Message == "" || e.RequestID != a.Header.Get("x-request-id") {
			t.Errorf("%s: refused with %+v, want %d %s", model, e, number, reason)
		}
		if strings.Contains(a.Body, key) {
			t.Errorf("%s: the key is in %q", model, a.Body)
		}
		return a
	}
	refused("demo-realtime", 401, 40101, "")
	refused("demo-realtime", 401, 40101, "", "Authorization", "Bearer "+key+"x")
	refused("demo-realtime", 401, 40101, "", "Sec-WebSocket-Protocol", "realtime, openai-insecure-api-key.cn_nobody_0123456789")
	refused("secret", 404, 40002, "", bearer...)
	refused("nothing", 404, 40002, "", bearer...)
	refused("demo-chat", 400, 40001, "", bearer...)
	refused("gone", 503, 50301, "no_endpoint", bearer...)
	refused("demo-realtime&model=demo-chat", 400, 40001, "", bearer...)
	for _, origin := range []string{"https://evil.example.com", "null"} {
		if a := refused("demo-realtime", 403, 40303, "", append(bearer, "Origin", origin)...); a.APIError(t).Code != "origin_not_allowed" {
			t.Errorf("origin %s: %s", origin, a.Body)
		}
	}
	for _, lines := range [][]string{
		{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 8", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="},
		{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"},
		{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 8"},
		{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="},
		{"Connection: Upgrade", "Upgrade: h2c", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="},
		{"Accept: text/event-stream"},
	} {
		w := wiretest.Dial(t, f.Entry.Address)
		w.Send("GET /v1/realtime?model=demo-realtime HTTP/1.1", append(lines, "Host: fleet", "Authorization: Bearer "+key), "")
		if a := w.Read(); a.Status != 400 || a.APIError(t).Number != 40001 || a.Header.Get("Upgrade") != "" {
			t.Errorf("%v was answered with %d %v", lines, a.Status, a.Header)
		}
		w.Close()
	}

	s := f.DialRealtime("demo-realtime", append(bearer, "Origin", "https://app.example.com")...)
	s.Hear("session.created")
	full := refused("full", 429, 42902, "queue_full", bearer...)
	if full.Header.Get("Retry-After") == "" || full.Header.Get("retry-after-ms") == "" || full.Header.Get("x-colonnade-reason") != "queue_full" {
		t.Errorf("headers of a refusal: %v", full.Header)
	}
	if e := f.FinalEvent(analytics.KindRequest, "refused-full"); e.Outcome != analytics.OutcomeRefused || e.Reason != "queue_full" || e.Status != 429 || !e.WebSocket {
		t.Errorf("event of a refusal: %+v", e)
	}
	// The session has the only slot of the pool.
	if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != http.StatusTooManyRequests {
		t.Errorf("a chat beside it: %d", a.Status)
	}
	if p := f.Pool("ams", "demo"); p.Held != 1 || f.Metric(f.Entry.Admin, `inference_active_requests{model="demo-realtime"}`) != 1 {
		t.Errorf("while it runs: %+v", p)
	}
	s.HangUp(1000, "")
	s.ExpectClose(1000, "")
	s.Close()

	barred := refused("demo-realtime", 429, 42901, "rate_limited", "Authorization", "Bearer "+none)
	if barred.Header.Get("Retry-After") != "" || barred.Header.Get("x-should-retry") != "false" {
		t.Errorf("headers of a permanent refusal: %v", barred.Header)
	}
}

// Sessions wait for their permit before the upgrade. One whose client leaves never begins; the other gets the permit.
func TestSessionWaitsBeforeUpgrade(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1), Colos: []string{"ams"}}, "")
	f.Watch(4)
	first := f.DialRealtime("demo-realtime")
	first.Hear("session.created")
	leaver, stayer := f.SendHandshake("demo-realtime"), f.SendHandshake("demo-realtime")
	testkit.WaitFor(t, "both to wait", func() bool { return f.Pool("ams", "demo").Queued == 2 })
	leaver.Close()
	testkit.WaitFor(t, "one to be removed", func() bool { return f.Pool("ams", "demo").Queued == 1 })
	time.Sleep(2 * time.Millisecond) // the header counts whole milliseconds
	first.HangUp(1000, "")
	first.ExpectClose(1000, "")
	first.Close()
	var a wiretest.Response
	if err := stayer.ReadHead(&a); err != nil || a.Status != http.StatusSwitchingProtocols || a.Header.Get("x-colonnade-queued-ms") == "0" {
		t.Fatalf("the waiting handshake was answered with %d %v, %v", a.Status, a.Header, err)
	}
	if fr, err := wiretest.ReadFrame(stayer.R); err != nil || !strings.Contains(fr.Payload, "session.created") {
		t.Errorf("its session began with %q, %v", fr.Payload, err)
	}
	_, _ = stayer.Write(wiretest.CloseFrame(1000, "").Masked())
	if fr, err := wiretest.ReadFrame(stayer.R); err != nil || fr != wiretest.CloseFrame(1000, "") {
		t.Errorf("its session ended with %q, %v", fr.Payload, err)
	}
	stayer.Close()
	if n := f.Engine("ams").Stats().Requests; n != 3 { // with the request of Watch
		t.Errorf("the engine got %d requests, want 3 without the cancelled one", n)
	}
}
