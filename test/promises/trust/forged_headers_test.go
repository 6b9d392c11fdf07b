package trust_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"colonnade/accounts"
	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// recording is an engine that records its requests.
func recording(slots int) simengine.Config {
	c := fleettest.QuickEngine(slots)
	c.Record = 1000
	return c
}

// Internal headers from a client are refused where two servers could read them in two ways, and ignored elsewhere. None is sent
// on.
func TestForgedHeaders(t *testing.T) {
	const token = "v1.eyJpYXQiOjB9.c2lnbmF0dXJl"
	colo, documents := fleettest.StartStubColo(t, "elsewhere", "elsewhere-1", func(hop.Wait) string { return "" })
	f := fleettest.Start(t, onebox.Config{Engine: recording(4)}, documents+"key: models/elsewhere\npool: demo\nrouting: {steps: [{colos: [elsewhere]}]}")
	f.Watch(8)
	for _, c := range []struct {
		lines  string // header lines, separated by |
		status int
	}{
		{"x-colonnade-hop: " + token, 200},
		{"X-COLONNADE-HOP: " + token, 200},
		{"X-Colonnade-Verdict: ooc;reason=queue_full|x-colonnade-load: free=0;held=4;limit=4;queued=9", 200},
		{"X-Colonnade-Visits: ams/ams-1|x-colonnade-served-by: fra/fra-1|x-colonnade-took-us: 1", 200},
		{"x-colonnade-attempts: 99|x-colonnade-queued-ms: 99|x-colonnade-colo: nowhere|x-colonnade-reason: none", 200},
		{"x-colonnade-account: root|x-colonnade-admin: 1|x-colonnade-admin: 1", 200},
		{"x-colonnade-priority: interactive", 200},
		{"Authorization: Bearer cn_forged_key|Cookie: a=b|X-Api-Key: cn_forged_key|Api-Key: cn_forged_key|Forwarded: for=1|X-Forwarded-For: 10.0.0.1|Via: x|Range: bytes=0-1", 200},
		{"x_colonnade_hop: " + token, 400},
		{"x-colonnade_hop: " + token, 400},
		{"x.colonnade.hop: " + token, 400},
		{"x-colonnade-hop : " + token, 400},
		{"x-colonnade-hop\t: " + token, 400},
		{"x-colonnade-anything : 1", 400},
		{"x-colonnade-queue: wait| x-colonnade-hop: " + token, 400},
		{"x-colonnade-queue: wait|\tx-colonnade-hop: " + token, 400},
		{"x-colonnade-hop: " + token + "|X-Colonnade-Hop: " + token, 400},
		{"x-colonnade-queue: wait|X-Colonnade-Queue: never", 400},
		{"x_colonnade_force_colo: fra", 400},
		{"x-colonnade-force-colo: fra", 400}, // for admin accounts only
		{"Connection: x-colonnade-hop|x-colonnade-hop: " + token, 400},
		{"Connection: keep-alive, X-Colonnade-Queue|x-colonnade-queue: never", 400},
		{"Connection: x_colonnade_hop", 400},
		{"Trailer: x-colonnade-hop", 400},
		{"TE: trailers|Trailer: x-colonnade-force-colo", 400},
		{"x-request_id: 12345678", 400},
		{"Authorization: Bearer a|authorization: Bearer b", 400},
		{"x-api-key: a|X-Api-Key: a", 400},
		{"api_key: a", 400},
		{"Connection: x-api-key|x-api-key: a", 400},
		{"Authorization: Bearer a|x-api-key: b", 401},
	} {
		w := wiretest.Dial(t, f.Entry.Address)
		w.Post("/v1/chat/completions", `{"model":"elsewhere","messages":[]}`, strings.Split(c.lines, "|")...)
		if a := w.Read(); a.Status != c.status || a.Header.Get("x-colonnade-colo") == "nowhere" || a.Header.Get("x-colonnade-attempts") == "99" {
			t.Errorf("%q: %d %v %.300q, want %d", c.lines, a.Status, a.Header, a.Body, c.status)
		}
		w.Close() // an open connection has a goroutine of the server, which outlasts it
		w = wiretest.Dial(t, f.Entry.Address)
		w.Post("/v1/chat/completions", fleettest.ChatBody(1, false), strings.Split(c.lines, "|")...)
		if a := w.Read(); a.Status != c.status {
			t.Errorf("%q: %d %.300q, want %d", c.lines, a.Status, a.Body, c.status)
		}
		w.Close()
	}
	// A trailer comes after the head was checked.
	for _, trailer := range []string{
		"x-colonnade-force-colo: fra", "x-colonnade-queue: bogus", "x-colonnade-hop: " + token, "x-colonnade-deadline-ms: soon",
		"x_colonnade_queue: bogus", "x-request-id: from-a-trailer", "traceparent: from-a-trailer", "content-encoding: gzip", "authorization: Bearer x",
	} {
		w := wiretest.Dial(t, f.Entry.Address)
		body := fleettest.ChatBody(1, false)
		w.Send("POST /v1/chat/completions HTTP/1.1", []string{"Host: fleet", "Content-Type: application/json", "Transfer-Encoding: chunked"},
			strconv.FormatInt(int64(len(body)), 16)+"\r\n"+body+"\r\n0\r\n"+trailer+"\r\n\r\n")
		a := w.Read()
		if a.Status != 400 || !strings.Contains(a.Body, "trailers are not supported") && !strings.Contains(a.Body, "not well-formed") {
			t.Errorf("trailer %q: %d %.300q, want it to be refused", trailer, a.Status, a.Body)
		}
		if how := w.End(); how != "closed" {
			t.Errorf("trailer %q: the connection ended: %s", trailer, how)
		}
		w.Close()
	}
	for _, r := range colo.Requests() {
		expectOwnHeaders(t, "the next node", r.Header, "X-Colonnade-Hop")
		if len(r.Header["X-Colonnade-Hop"]) != 1 || r.Header.Get("X-Colonnade-Hop") == token || r.Hop.Priority != "standard" {
			t.Errorf("the next node got the token %v, which says %+v", r.Header["X-Colonnade-Hop"], r.Hop)
		}
	}
	for _, e := range f.Engines {
		for _, r := range e.Simulated.Received() {
			expectOwnHeaders(t, "an engine", r.Header)
		}
	}
}

// expectOwnHeaders expects that a request that was sent on has no other headers than nodes send.
func expectOwnHeaders(t testing.TB, who string, h http.Header, more ...string) {
	t.Helper()
	ours := " Content-Type Content-Length User-Agent Accept Accept-Encoding Traceparent X-Request-Id " + strings.Join(more, " ") + " "
	for name, values := range h {
		if !strings.Contains(ours, " "+name+" ") {
			t.Errorf("%s got the header %s: %v", who, name, values)
		}
	}
}

// A fleet that is not open requires an API key, and sends it to no engine.
func TestAPIKeyRequired(t *testing.T) {
	now := time.Now()
	key, doc := accounts.NewKey("one", "k1", now, now.Add(time.Hour))
	old, oldDoc := accounts.NewKey("two", "k2", now.Add(-time.Hour), now.Add(-time.Minute))
	narrow, narrowDoc := accounts.NewKey("three", "k3", now, time.Time{})
	f := fleettest.StartClosed(t, onebox.Config{Engine: recording(4)}, "key: accounts/one\nmodels: [demo-chat, demo-embed]\n---\n"+
		fleettest.APIKeyDocument(t, doc)+"---\nkey: accounts/two\nmodels: [demo-chat]\n---\n"+fleettest.APIKeyDocument(t, oldDoc)+
		"---\nkey: accounts/three\nmodels: [demo-embed]\n---\n"+fleettest.APIKeyDocument(t, narrowDoc))
	f.Key = key
	f.Watch(8)
	before := f.EngineRequests()
	for _, c := range []struct {
		name, authorization string
		status, number      int
	}{
		{"none", "", 401, 40101},
		{"wrong", "Bearer cn_k1_wrong", 401, 40101},
		{"other scheme", "Basic " + key, 401, 40101},
		{"expired", "Bearer " + old, 401, 40101},
		{"long", "Bearer " + strings.Repeat("x", 8<<10), 401, 40101},
		{"other model's", "Bearer " + narrow, 404, 40002},
	} {
		w := wiretest.Dial(t, f.Entry.Address)
		w.Post("/v1/chat/completions", fleettest.ChatBody(1, false), "Authorization: "+c.authorization)
		a := w.Read()
		e := a.APIError(t)
		if a.Status != c.status || e.Number != c.number || (a.Header.Get("WWW-Authenticate") == "Bearer") != (c.status == 401) {
			t.Errorf("%s: %d %+v %v, want %d %d", c.name, a.Status, e, a.Header, c.status, c.number)
		}
		if strings.Contains(a.Body, "cn_k") {
			t.Errorf("%s: the response has a key: %q", c.name, a.Body)
		}
		if c.status != 401 {
			continue
		}
		w.Send("GET /v1/models HTTP/1.1", []string{"Host: fleet", "Authorization: " + c.authorization}, "")
		if a := w.Read(); a.Status != 401 {
			t.Errorf("%s: the list of models: %d", c.name, a.Status)
		}
	}
	if n := f.EngineRequests() - before; n != 0 {
		t.Errorf("%d requests without a valid key reached an engine", n)
	}
	a := f.Chat(`{"model":"none of ours","messages":[]}`)
	if e := a.APIError(t); a.Status != 404 || e.Number != 40002 || e.Code != "model_not_found" || e.Param != "model" {
		t.Errorf("unknown model: %d %+v", a.Status, e)
	}
	if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 {
		t.Errorf("with a valid key: %d %q", a.Status, a.Body)
	}
	for _, e := range f.Engines {
		for _, r := range e.Simulated.Received() {
			if len(r.Header["Authorization"]) > 0 {
				t.Errorf("an engine got the client's key")
			}
		}
	}
}
