package trust_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

const (
	upgradeLines = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
	// behindUpgrade is what a client might send that takes the connection for a tunnel: a frame, a request, the preface of HTTP/2.
	behindUpgrade = "\x81\x82\x00\x00\x00\x00hi" + firstLine + "\r\nHost: fleet\r\nContent-Length: 0\r\n\r\n" + "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// upgradeFleet has an engine whose responses a test writes, with the realtime model "own" and the chat model "plain".
func upgradeFleet(t *testing.T) (f *fleettest.Fleet, engine *tape, answers *atomic.Value) {
	answers = &atomic.Value{}
	answers.Store(plainOK)
	engine, documents := startAnsweringTape(t, func(r *http.Request) string {
		text, _ := answers.Load().(string)
		return strings.ReplaceAll(text, "{accept}", r.Header.Get("Sec-WebSocket-Key"))
	})
	documents += "type: realtime\n---\nkey: models/plain\npool: own\n"
	f = fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, documents)
	watchNodes(f, 16)
	return f, engine, answers
}

// realtimeToken returns the header line with the hop token of a handshake for the model "own".
func realtimeToken(f *fleettest.Fleet) string {
	to := hop.Binding{Audience: f.Colos[0].Node, Method: "GET", Target: "/v1/realtime?model=own"}
	return "x-colonnade-hop: " + signTokenFor(f, to, time.Now())
}

// An engine that answers an upgrade incorrectly, or switches without being asked, makes no tunnel: the client gets one error and
// the end of the connection, and nothing that it sent behind its request is sent on.
func TestFailedUpgradeIsNoTunnel(t *testing.T) {
	f, engine, answers := upgradeFleet(t)
	const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
	const body = `{"model":"plain","messages":[]}`
	plainToken := func() string {
		return "x-colonnade-hop: " + signToken(f, f.Colos[0].Node, fleettest.ChatPath, body, time.Now())
	}
	for name, answer := range map[string]string{ // forwarding/realtime tests all handshakes that fail
		"200":                      plainOK,
		"101 for another key":      switched + "websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n\x81\x02hi",
		"101 to h2c":               switched + "h2c\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"101 with a length":        switched + "websocket\r\nContent-Length: 2\r\n\r\nhi" + plainOK,
		"400":                      wiretest.EncodeResponse("400 No", "{}", "Content-Type: application/json"),
		"101 between 1xx and more": "HTTP/1.1 103 Hints\r\n\r\n" + switched + "websocket\r\n\r\n",
	} {
		answers.Store(answer)
		for _, address := range []string{f.Entry.Address, f.Colos[0].Address} {
			w := wiretest.Dial(t, address)
			w.Send("GET /v1/realtime?model=own HTTP/1.1", []string{"Host: fleet", realtimeToken(f), upgradeLines}, behindUpgrade)
			expectLast(w, name, func(status int) bool { return status >= 400 })
			// And without an upgrade: all but a 101 is a response like any other.
			w = wiretest.Dial(t, address)
			w.Send(firstLine, []string{"Host: fleet", plainToken(), "Content-Type: application/json", "Connection: Upgrade", "Upgrade: h2c", fmt.Sprintf("Content-Length: %d", len(body))}, body+behindUpgrade)
			expectLast(w, name+", not asked for", func(status int) bool {
				return status >= 400 || status == 200 && strings.Contains(answer, "HTTP/1.1 200") && !strings.Contains(answer, " 101 ")
			})
		}
		heard, garbled := engine.rewind()
		for _, g := range garbled {
			t.Errorf("%s: the engine was sent %q", name, g)
		}
		for _, h := range heard {
			handshake := strings.HasPrefix(h, "GET /v1/realtime?model=own HTTP/1.1\r\n") && strings.HasSuffix(h, "\r\n\r\n") && strings.Count(h, "\r\n\r\n") == 1
			if !handshake && !strings.HasSuffix(h, `","messages":[]}`) || strings.Contains(h, "h2c") {
				t.Errorf("%s: the engine was sent %q", name, h)
			}
		}
		if len(heard) < 4 {
			t.Errorf("%s: the engine got %d requests", name, len(heard))
		}
	}
}

// expectLast expects one response, with an expected status, and then the end of the connection.
func expectLast(w *wiretest.Conn, name string, expected func(status int) bool) {
	w.T.Helper()
	defer w.Close()
	a := w.Read()
	if !expected(a.Status) || a.Err != nil || a.Header.Get("Connection") != "close" || a.Header.Get("Upgrade") != "" {
		w.T.Errorf("%s: answered %d %v %v %.200q", name, a.Status, a.Header, a.Err, a.Body)
	}
	if how := w.End(); how != "closed" {
		w.T.Errorf("%s: the connection ended: %s", name, how)
	}
}

// Requests to switch to another protocol, or on another path, are refused or served without the switch, reach no engine, and are
// the last on their connection. All handshakes that are refused are tested in forwarding/realtime.
func TestRefusedUpgrades(t *testing.T) {
	f, engine, _ := upgradeFleet(t)
	for _, c := range []struct {
		first, lines string
		status       int // of an entry
	}{
		{"GET /v1/realtime?model=own HTTP/1.1", "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk", 400},
		{"GET /v1/realtime?model=own HTTP/1.1", strings.Replace(upgradeLines, "Upgrade: websocket", "Upgrade: websocket\r\nUpgrade: h2c", 1), 400},
		{"GET /v1/realtime?model=own HTTP/1.1", upgradeLines + "\r\nContent-Length: 5", 400},
		{"GET /v1/realtime?model=own HTTP/1.0", upgradeLines, 400},
		{"GET /v1/realtime?model=plain HTTP/1.1", upgradeLines, 400},
		{"POST /v1/realtime?model=own HTTP/1.1", upgradeLines + "\r\nContent-Length: 0", 400},
		{"GET /v1/chat/completions HTTP/1.1", upgradeLines, 405},
		{"GET /v1/models HTTP/1.1", "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk", 200},
		{"GET /health HTTP/1.1", upgradeLines, 200},
		{"CONNECT fleet:80 HTTP/1.1", upgradeLines, 405},
		{"PRI * HTTP/2.0", "", 400},
	} {
		for _, peer := range []bool{false, true} {
			if peer && strings.Contains(c.first, "/v1/realtime?") && !strings.Contains(c.first, "model=own") {
				continue // a colo trusts the model in the hop token
			}
			address, name := f.Entry.Address, c.first+" "+c.lines
			if peer {
				address = f.Colos[0].Address
			}
			lines := []string{"Host: fleet", realtimeToken(f)}
			if c.lines != "" {
				lines = append(lines, c.lines)
			}
			w := wiretest.Dial(t, address)
			w.Send(c.first, lines, behindUpgrade)
			expectLast(w, name, func(status int) bool { return status == c.status && !peer || peer && status/100 == 4 })
		}
	}
	if heard, garbled := engine.rewind(); len(heard)+len(garbled) > 0 {
		t.Errorf("the engine was sent %q %q", heard, garbled)
	}
}
