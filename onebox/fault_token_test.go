package onebox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding"
	"colonnade/onebox"
)

// A token is believed once it came in the one header that it comes in, for the one request that it was signed for, and
// while it is good; whatever else a client or a node says of itself beside it is not.
func TestTokensAreForOneRequest(t *testing.T) {
	engine, documents := startTape(t)
	f := startFleet(t, onebox.Config{Engine: quick(4)}, documents)
	f.watchNodes(8)
	ams, fra := f.Colos[0], f.Colos[1]
	if ams.Colo != "ams" {
		ams, fra = fra, ams
	}
	now := time.Now()
	good := f.token(ams.Node, chatPath, ownBody, now)
	signed := func(to forwarding.HopTarget) string { return f.tokenFor(to, now) }
	stranger, err := forwarding.RandomKeys().Sign(forwarding.Hop{Model: "own"}, forwarding.HopTarget{Audience: ams.Node, Method: "POST", Path: chatPath, Body: []byte(ownBody)}, now)
	if err != nil {
		t.Fatal(err)
	}
	to := forwarding.HopTarget{Audience: ams.Node, Method: "POST", Path: chatPath, Body: []byte(ownBody)}
	with := func(change func(*forwarding.HopTarget)) string {
		other := to
		change(&other)
		return signed(other)
	}
	hop := "x-colonnade-hop: "
	other := strings.Replace(ownBody, "[]", "[ ]", 1)
	for _, c := range []struct {
		name, address, first, lines, body string
		status                            int
	}{
		{"as it was signed", ams.Address, firstLine, hop + good, ownBody, 200},
		{"in capitals", ams.Address, firstLine, "X-COLONNADE-HOP:" + good, ownBody, 200},
		{"with a query", ams.Address, "POST " + chatPath + "?a=b HTTP/1.1", hop + good, ownBody, 200},
		{"by a slow clock", ams.Address, firstLine, hop + f.token(ams.Node, chatPath, ownBody, now.Add(-5*time.Minute)), ownBody, 200},
		{"beside what nobody signed", ams.Address, firstLine, hop + good + "|x-colonnade-priority: interactive|x-colonnade-queue: never|x-colonnade-force-colo: fra|x-colonnade-deadline-ms: 0|x-request-id: forged-id|" +
			"x-colonnade-verdict: ooc|x-colonnade-load: free=0|x-colonnade-attempts: 9|Authorization: Bearer x", ownBody, 200},
		{"replayed after its time", ams.Address, firstLine, hop + f.token(ams.Node, chatPath, ownBody, now.Add(-11*time.Minute)), ownBody, 403},
		{"before its time", ams.Address, firstLine, hop + f.token(ams.Node, chatPath, ownBody, now.Add(11*time.Minute)), ownBody, 403},
		{"of a stranger", ams.Address, firstLine, hop + stranger, ownBody, 403},
		{"for another server", fra.Address, firstLine, hop + good, ownBody, 403},
		{"of another server", ams.Address, firstLine, hop + with(func(to *forwarding.HopTarget) { to.Audience = fra.Node }), ownBody, 403},
		{"for another path", ams.Address, "POST /v1/completions HTTP/1.1", hop + good, ownBody, 403},
		{"of another path", ams.Address, firstLine, hop + with(func(to *forwarding.HopTarget) { to.Path = "/v1/completions" }), ownBody, 403},
		{"for another method", ams.Address, "PUT " + chatPath + " HTTP/1.1", hop + good, ownBody, 405},
		{"of another method", ams.Address, firstLine, hop + with(func(to *forwarding.HopTarget) { to.Method = "GET" }), ownBody, 403},
		{"for another body", ams.Address, firstLine, hop + good, other, 403},
		{"of another body", ams.Address, firstLine, hop + with(func(to *forwarding.HopTarget) { to.Body = []byte(other) }), ownBody, 403},
		{"for half a body", ams.Address, firstLine, hop + good, ownBody[:10], 403},
		{"of no body", ams.Address, firstLine, hop + with(func(to *forwarding.HopTarget) { to.Body = nil }), ownBody, 403},
		{"twice", ams.Address, firstLine, hop + good + "|" + hop + good, ownBody, 400},
		{"behind a forged one", ams.Address, firstLine, hop + stranger + "|X-Colonnade-Hop: " + good, ownBody, 400},
		{"in a list", ams.Address, firstLine, hop + good + ", " + good, ownBody, 403},
		{"of this hop only", ams.Address, firstLine, hop + good + "|Connection: close, x-colonnade-hop", ownBody, 400},
		{"with an underscore", ams.Address, firstLine, "x_colonnade_hop: " + good, ownBody, 400},
		{"with an alias beside", ams.Address, firstLine, hop + good + "|x-colonnade_hop: " + stranger, ownBody, 400},
		{"with a dot", ams.Address, firstLine, "x.colonnade.hop: " + good, ownBody, 400},
		{"with a space", ams.Address, firstLine, "x-colonnade-hop : " + good, ownBody, 400},
		{"with a tab", ams.Address, firstLine, "x-colonnade-hop\t: " + good, ownBody, 400},
		{"folded", ams.Address, firstLine, "x-colonnade-hop:| " + good, ownBody, 400},
		{"folded into another", ams.Address, firstLine, "x-note: a| " + hop + good, ownBody, 400},
		{"under another name", ams.Address, firstLine, "colonnade-hop: " + good + "|x-forwarded-x-colonnade-hop: " + good, ownBody, 403},
		{"as a key", ams.Address, firstLine, "Authorization: Bearer " + good, ownBody, 403},
		{"in a cookie", ams.Address, firstLine, "Cookie: x-colonnade-hop=" + good, ownBody, 403},
		{"in the query", ams.Address, "POST " + chatPath + "?x-colonnade-hop=" + good + " HTTP/1.1", "x-note: a", ownBody, 403},
		{"quoted", ams.Address, firstLine, hop + `"` + good + `"`, ownBody, 403},
		{"as a Bearer", ams.Address, firstLine, hop + "Bearer " + good, ownBody, 403},
	} {
		lines := append([]string{"Host: fleet", "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(c.body))}, strings.Split(c.lines, "|")...)
		w := dialWire(t, c.address)
		w.send(c.first, lines, c.body)
		a := w.read()
		if a.Status != c.status || a.Status == 403 && (a.error(t).Number != 40302 || len(a.Header["X-Colonnade-Load"]) > 0) {
			t.Errorf("%s: %d %.300q, want %d", c.name, a.Status, a.Body, c.status)
		}
		if a.Status != 200 {
			if how := w.ended(); how != "closed" {
				t.Errorf("%s: the connection ended: %s", c.name, how)
			}
			engine.check(t, c.name)
		} else {
			engine.check(t, c.name, ownBody)
		}
		w.Close()
	}
	for _, announced := range []string{"", "Trailer: x-colonnade-hop\r\n"} {
		w := dialWire(t, ams.Address)
		w.send(firstLine, []string{"Host: fleet", "Content-Type: application/json", announced + "Transfer-Encoding: chunked"},
			strings.TrimSuffix(inChunks(ownBody, 10), "\r\n")+hop+good+"\r\n\r\n")
		if a := w.read(); a.Status != 400 && a.Status != 403 {
			t.Errorf("in a trailer: %d %.300q", a.Status, a.Body)
		}
		w.Close()
	}
	engine.check(t, "in a trailer")
}
