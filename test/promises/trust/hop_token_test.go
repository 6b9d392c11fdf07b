package trust_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// A hop token is accepted in its header only, for the request for which it was signed, and while it is valid. Other internal
// headers beside it are ignored. How tokens are altered is tested in forwarding/hop.
func TestHopTokenIsForOneRequest(t *testing.T) {
	engine, documents := startTape(t)
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4)}, documents)
	watchNodes(f, 8)
	ams, fra := f.Colos[0], f.Colos[1]
	if ams.Colo != "ams" {
		ams, fra = fra, ams
	}
	now := time.Now()
	good := func() string { return signToken(f, ams.Node, fleettest.ChatPath, fleettest.StubBody, now) } // another one each time
	signed := func(to hop.Binding) string { return signTokenFor(f, to, now) }
	to := hop.Binding{Audience: ams.Node, Method: "POST", Target: fleettest.ChatPath, AppendHeader: fleettest.JSONHeader, Body: []byte(fleettest.StubBody)}
	otherKey, err := hop.RandomKeys().Sign(&hop.Token{Model: "own"}, hop.NewSequence(ams.Boot), &to, now)
	if err != nil {
		t.Fatal(err)
	}
	otherBoot, err := f.Keys.Sign(new(ownToken()), hop.NewSequence("earlier"), &to, now)
	if err != nil {
		t.Fatal(err)
	}
	altered := func(token string) string { return token[:len(token)/2] + "A" + token[len(token)/2:] }
	twice, used := good(), good()
	with := func(change func(*hop.Binding)) string {
		other := to
		change(&other)
		return signed(other)
	}
	token := "x-colonnade-hop: "
	other := strings.Replace(fleettest.StubBody, "[]", "[ ]", 1)
	for _, c := range []struct {
		name, address, first, lines, body string
		status                            int
	}{
		{"as it was signed", ams.Address, firstLine, token + good(), fleettest.StubBody, 200},
		{"in capitals", ams.Address, firstLine, "X-COLONNADE-HOP:" + good(), fleettest.StubBody, 200},
		{"for another query", ams.Address, "POST " + fleettest.ChatPath + "?a=b HTTP/1.1", token + good(), fleettest.StubBody, 403},
		{"of another query", ams.Address, firstLine, token + with(func(to *hop.Binding) { to.Target += "?a=b" }), fleettest.StubBody, 403},
		{"with its query", ams.Address, "POST " + fleettest.ChatPath + "?a=b HTTP/1.1", token + with(func(to *hop.Binding) { to.Target += "?a=b" }), fleettest.StubBody, 200},
		{"for another header", ams.Address, firstLine, token + good() + "|Accept: text/plain", fleettest.StubBody, 403},
		{"of another header", ams.Address, firstLine, token + with(func(to *hop.Binding) { to.AppendHeader = nil }), fleettest.StubBody, 403},
		{"for another process", ams.Address, firstLine, token + otherBoot, fleettest.StubBody, 403},
		{"to be used again", ams.Address, firstLine, token + used, fleettest.StubBody, 200},
		{"used before", ams.Address, firstLine, token + used, fleettest.StubBody, 403},
		{"of a slow clock", ams.Address, firstLine, token + signToken(f, ams.Node, fleettest.ChatPath, fleettest.StubBody, now.Add(-5*time.Minute)), fleettest.StubBody, 200},
		{"beside unsigned headers", ams.Address, firstLine, token + good() + "|x-colonnade-priority: interactive|x-colonnade-queue: never|x-colonnade-force-colo: fra|x-colonnade-deadline-ms: 0|x-request-id: forged-id|" +
			"x-colonnade-verdict: ooc|x-colonnade-load: free=0|x-colonnade-attempts: 9|Authorization: Bearer x", fleettest.StubBody, 200},
		{"without a token", ams.Address, firstLine, "x-note: a", fleettest.StubBody, 403},
		{"altered", ams.Address, firstLine, token + altered(good()), fleettest.StubBody, 403},
		{"replayed after its time", ams.Address, firstLine, token + signToken(f, ams.Node, fleettest.ChatPath, fleettest.StubBody, now.Add(-11*time.Minute)), fleettest.StubBody, 403},
		{"issued in the future", ams.Address, firstLine, token + signToken(f, ams.Node, fleettest.ChatPath, fleettest.StubBody, now.Add(11*time.Minute)), fleettest.StubBody, 403},
		{"of another key", ams.Address, firstLine, token + otherKey, fleettest.StubBody, 403},
		{"for another server", fra.Address, firstLine, token + good(), fleettest.StubBody, 403},
		{"of another server", ams.Address, firstLine, token + with(func(to *hop.Binding) { to.Audience = fra.Node }), fleettest.StubBody, 403},
		{"for another path", ams.Address, "POST /v1/completions HTTP/1.1", token + good(), fleettest.StubBody, 403},
		{"of another path", ams.Address, firstLine, token + with(func(to *hop.Binding) { to.Target = "/v1/completions" }), fleettest.StubBody, 403},
		{"for another method", ams.Address, "PUT " + fleettest.ChatPath + " HTTP/1.1", token + good(), fleettest.StubBody, 405},
		{"of another method", ams.Address, firstLine, token + with(func(to *hop.Binding) { to.Method = "GET" }), fleettest.StubBody, 403},
		{"for another body", ams.Address, firstLine, token + good(), other, 403},
		{"of another body", ams.Address, firstLine, token + with(func(to *hop.Binding) { to.Body = []byte(other) }), fleettest.StubBody, 403},
		{"for half a body", ams.Address, firstLine, token + good(), fleettest.StubBody[:10], 403},
		{"of no body", ams.Address, firstLine, token + with(func(to *hop.Binding) { to.Body = nil }), fleettest.StubBody, 403},
		{"twice", ams.Address, firstLine, token + twice + "|" + token + twice, fleettest.StubBody, 400},
		{"behind a forged one", ams.Address, firstLine, token + otherKey + "|X-Colonnade-Hop: " + good(), fleettest.StubBody, 400},
		{"in a list", ams.Address, firstLine, token + twice + ", " + twice, fleettest.StubBody, 403},
		{"named by Connection", ams.Address, firstLine, token + good() + "|Connection: close, x-colonnade-hop", fleettest.StubBody, 400},
		{"with an underscore", ams.Address, firstLine, "x_colonnade_hop: " + good(), fleettest.StubBody, 400},
		{"with an alias beside", ams.Address, firstLine, token + good() + "|x-colonnade_hop: " + otherKey, fleettest.StubBody, 400},
		{"with a dot", ams.Address, firstLine, "x.colonnade.hop: " + good(), fleettest.StubBody, 400},
		{"with a space", ams.Address, firstLine, "x-colonnade-hop : " + good(), fleettest.StubBody, 400},
		{"with a tab", ams.Address, firstLine, "x-colonnade-hop\t: " + good(), fleettest.StubBody, 400},
		{"folded", ams.Address, firstLine, "x-colonnade-hop:| " + good(), fleettest.StubBody, 400},
		{"folded into another", ams.Address, firstLine, "x-note: a| " + token + good(), fleettest.StubBody, 400},
		{"under another name", ams.Address, firstLine, "colonnade-hop: " + good() + "|x-forwarded-x-colonnade-hop: " + good(), fleettest.StubBody, 403},
		{"as a key", ams.Address, firstLine, "Authorization: Bearer " + good(), fleettest.StubBody, 403},
		{"in a cookie", ams.Address, firstLine, "Cookie: x-colonnade-hop=" + good(), fleettest.StubBody, 403},
		{"in the query", ams.Address, "POST " + fleettest.ChatPath + "?x-colonnade-hop=" + good() + " HTTP/1.1", "x-note: a", fleettest.StubBody, 403},
		{"quoted", ams.Address, firstLine, token + `"` + good() + `"`, fleettest.StubBody, 403},
		{"as a Bearer", ams.Address, firstLine, token + "Bearer " + good(), fleettest.StubBody, 403},
	} {
		lines := append([]string{"Host: fleet", "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(c.body))}, strings.Split(c.lines, "|")...)
		w := wiretest.Dial(t, c.address)
		w.Send(c.first, lines, c.body)
		a := w.Read()
		if a.Status != c.status || a.Status == 403 && (a.APIError(t).Number != 40302 || strings.Contains(a.Body, "sign") || len(a.Header["X-Colonnade-Load"]) > 0) {
			t.Errorf("%s: %d %.300q, want %d", c.name, a.Status, a.Body, c.status)
		}
		if a.Status != 200 {
			if how := w.End(); how != "closed" {
				t.Errorf("%s: the connection ended: %s", c.name, how)
			}
			engine.check(t, c.name)
		} else {
			engine.check(t, c.name, fleettest.StubBody)
		}
		w.Close()
	}
	for _, announced := range []string{"", "Trailer: x-colonnade-hop\r\n"} {
		w := wiretest.Dial(t, ams.Address)
		w.Send(firstLine, []string{"Host: fleet", "Content-Type: application/json", announced + "Transfer-Encoding: chunked"},
			strings.TrimSuffix(wiretest.Chunked(fleettest.StubBody, 10), "\r\n")+token+good()+"\r\n\r\n")
		if a := w.Read(); a.Status != 400 && a.Status != 403 {
			t.Errorf("in a trailer: %d %.300q", a.Status, a.Body)
		}
		w.Close()
	}
	engine.check(t, "in a trailer")
}
