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

// recording is an engine that remembers what it was sent.
func recording(slots int) simengine.Config {
	c := fleettest.QuickEngine(slots)
	c.Record = 1000
	return c
}

// Headers of the fleet's own that come from a client are refused where two servers could read them in two ways, and
// else not believed. None goes on.
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
		{"x-colonnade-attempts: 99|x-colonnade-queued-ms: 99|x-colonnade-colo: nowhere|x-colonnade-reason: none", 200},
		{"x-colonnade-account: root|x-colonnade-admin: 1|x-colonnade-admin: 1", 200},
		{"x-colonnade-priority: interactive", 200},
		{"Authorization: Bearer cn_forged_key|Cookie: a=b|X-Api-Key: k|Forwarded: for=1|X-Forwarded-For: 10.0.0.1|Via: x|Range: bytes=0-1", 200},
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
	} {
		w := wiretest.Dial(t, f.Entry.Address)
		w.Post("/v1/chat/completions", `{"model":"elsewhere","messages":[]}`, strings.Split(c.lines, "|")...)
		if a := w.Read(); a.Status != c.status || a.Header.Get("x-colonnade-colo") == "nowhere" || a.Header.Get("x-colonnade-attempts") == "99" {
			t.Errorf("%q: %d %v %.300q, want %d", c.lines, a.Status, a.Header, a.Body, c.status)
		}
		w.Close() // each that is open has a goroutine of the server's, which outlasts it
		w = wiretest.Dial(t, f.Entry.Address)
		w.Post("/v1/chat/completions", fleettest.ChatBody(1, false), strings.Split(c.lines, "|")...)
		if a := w.Read(); a.Status != c.status {
			t.Errorf("%q: %d %.300q, want %d", c.lines, a.Status, a.Body, c.status)
		}
		w.Close()
	}
	// What comes behind the body is read after the head was checked.
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
		isOurs(t, "the next node", r.Header, "X-Colonnade-Hop")
		if len(r.Header["X-Colonnade-Hop"]) != 1 || r.Header.Get("X-Colonnade-Hop") == token || r.Hop.Priority != "standard" {
			t.Errorf("the next node got the token %v, which says %+v", r.Header["X-Colonnade-Hop"], r.Hop)
		}
	}
	for _, e := range f.Engines {
		for _, r := range e.Simulated.Received() {
			isOurs(t, "an engine", r.Header)
		}
	}
}

// isOurs checks that a request that was sent on has no other headers than we send.
func isOurs(t testing.TB, who string, h http.Header, more ...string) {
	t.Helper()
	ours := " Content-Type Content-Length User-Agent Accept Accept-Encoding Traceparent X-Request-Id " + strings.Join(more, " ") + " "
	for name, values := range h {
		if !strings.Contains(ours, " "+name+" ") {
			t.Errorf("%s got the header %s: %v", who, name, values)
		}
	}
}

// The listener for the fleet's own nodes believes nobody without a token for this server, path and body.
func TestPeerListener(t *testing.T) {
	// A stand-in that passes for the server ams-1 gets tokens that are good for the true one.
	thief, documents := fleettest.StartStubColo(t, "elsewhere", "ams-1", func(hop.Wait) string { return "" })
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4)}, documents+"key: models/demo-chat\npool: demo\nrouting: {steps: [{colos: [ams, fra]}]}\n---\n"+
		"key: models/elsewhere\nupstream_name: demo-chat\npool: demo\nrouting: {steps: [{colos: [elsewhere]}]}")
	f.Watch(8)
	const path, body = "/v1/chat/completions", `{"model":"elsewhere","messages":[],"max_tokens":1}`
	if a := f.Chat(body); a.Status != 200 {
		t.Fatalf("the stand-in: %d", a.Status)
	}
	token := thief.Requests()[0].Header.Get("X-Colonnade-Hop")
	parts := strings.Split(token, ".")
	other := func(s string, at int) string { // another character of the alphabet
		c := byte('A')
		if s[at] == c {
			c = 'B'
		}
		return s[:at] + string(c) + s[at+1:]
	}
	// The signature's last character has two bits that mean nothing.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := len(token) - 1
	respelled := token[:last] + string(alphabet[strings.IndexByte(alphabet, token[last])+1])
	ams, fra := f.Colos[0].Address, f.Colos[1].Address
	before := f.EngineRequests()
	for _, c := range []struct{ name, address, path, body, line string }{
		{"no token", ams, path, body, "x-request-id: 12345678"},
		{"empty", ams, path, body, "x-colonnade-hop:"},
		{"no signature", ams, path, body, "x-colonnade-hop: " + parts[0] + "." + parts[1] + "."},
		{"no token at all", ams, path, body, "x-colonnade-hop: open sesame"},
		{"altered payload", ams, path, body, "x-colonnade-hop: " + parts[0] + "." + other(parts[1], 10) + "." + parts[2]},
		{"altered signature", ams, path, body, "x-colonnade-hop: " + parts[0] + "." + parts[1] + "." + other(parts[2], 10)},
		{"other version", ams, path, body, "x-colonnade-hop: v2." + parts[1] + "." + parts[2]},
		{"longer", ams, path, body, "x-colonnade-hop: " + token + "="},
		{"respelled", ams, path, body, "x-colonnade-hop: " + respelled},
		{"other body", ams, path, body + " ", "x-colonnade-hop: " + token},
		{"other model", ams, path, strings.Replace(body, "1", "9", 1), "x-colonnade-hop: " + token},
		{"other path", ams, "/v1/completions", body, "x-colonnade-hop: " + token},
		{"other server", fra, path, body, "x-colonnade-hop: " + token},
	} {
		w := wiretest.Dial(t, c.address)
		w.Post(c.path, c.body, c.line)
		a := w.Read()
		if e := a.APIError(t); a.Status != 403 || e.Number != 40302 || strings.Contains(a.Body, "sign") || len(a.Header["X-Colonnade-Load"]) > 0 {
			t.Errorf("%s: %d %+v, want 403 and not a word about the reason", c.name, a.Status, e)
		}
		if how := w.End(); how != "closed" {
			t.Errorf("%s: the connection ended: %s", c.name, how)
		}
	}
	for _, lines := range [][]string{
		{"x_colonnade_hop: " + token},
		{"x-colonnade-hop: " + token, "x-colonnade-hop: " + token},
		{"x-colonnade-hop : " + token},
	} {
		w := wiretest.Dial(t, ams)
		w.Post(path, body, lines...)
		if a := w.Read(); a.Status != 400 && a.Status != 403 {
			t.Errorf("%q: %d", lines, a.Status)
		}
	}
	w := wiretest.Dial(t, ams)
	w.Send("POST "+path+" HTTP/1.1", []string{"Host: ams", "Content-Type: application/json", "Transfer-Encoding: chunked"},
		strconv.FormatInt(int64(len(body)), 16)+"\r\n"+body+"\r\n0\r\nx-colonnade-hop: "+token+"\r\n\r\n")
	if a := w.Read(); a.Status != 400 && a.Status != 403 {
		t.Errorf("token in a trailer: %d", a.Status)
	}
	if n := f.EngineRequests() - before; n != 0 {
		t.Errorf("%d forged requests reached an engine", n)
	}
	// Without this the rest would prove nothing.
	w = wiretest.Dial(t, ams)
	w.Post(path, body, "x-colonnade-hop: "+token)
	if a := w.Read(); a.Status != 200 {
		t.Errorf("the token as it was issued: %d %q", a.Status, a.Body)
	}
}

// A fleet that is not open wants a key, and keeps it to itself.
func TestKeys(t *testing.T) {
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
		{"endless", "Bearer " + strings.Repeat("x", 8<<10), 401, 40101},
		{"other model's", "Bearer " + narrow, 403, 40301},
	} {
		w := wiretest.Dial(t, f.Entry.Address)
		w.Post("/v1/chat/completions", fleettest.ChatBody(1, false), "Authorization: "+c.authorization)
		a := w.Read()
		e := a.APIError(t)
		if a.Status != c.status || e.Number != c.number || (a.Header.Get("WWW-Authenticate") == "Bearer") != (c.status == 401) {
			t.Errorf("%s: %d %+v %v, want %d %d", c.name, a.Status, e, a.Header, c.status, c.number)
		}
		if strings.Contains(a.Body, "cn_k") {
			t.Errorf("%s: the answer repeats a key: %q", c.name, a.Body)
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
		t.Errorf("%d requests without a good key reached an engine", n)
	}
	a := f.Chat(`{"model":"none of ours","messages":[]}`)
	if e := a.APIError(t); a.Status != 404 || e.Number != 40002 || e.Code != "model_not_found" || e.Param != "model" {
		t.Errorf("unknown model: %d %+v", a.Status, e)
	}
	if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 {
		t.Errorf("with a good key: %d %q", a.Status, a.Body)
	}
	for _, e := range f.Engines {
		for _, r := range e.Simulated.Received() {
			if len(r.Header["Authorization"]) > 0 {
				t.Errorf("an engine got the client's key")
			}
		}
	}
}
