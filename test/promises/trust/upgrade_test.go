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
	// saidBehind is what a client that thinks itself in a tunnel might say: a frame, a request, the preface of HTTP/2.
	saidBehind = "\x81\x82\x00\x00\x00\x00hi" + firstLine + "\r\nHost: fleet\r\nContent-Length: 0\r\n\r\n" + "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// upgradeFleet has an engine that answers as a test wants, whose model "own" is of type realtime and "plain" is not.
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

// An engine that does not take an upgrade as it was meant, or answers one that nobody asked for, makes no tunnel: the
// client gets one error and the end, and nothing that it said behind its request goes anywhere.
func TestFailedUpgradeIsNoTunnel(t *testing.T) {
	f, engine, answers := upgradeFleet(t)
	const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
	const body = `{"model":"plain","messages":[]}`
	token := "x-colonnade-hop: " + signTokenFor(f, hop.Binding{Audience: f.Colos[0].Node, Method: "GET", Path: "/v1/realtime"}, time.Now())
	plainToken := "x-colonnade-hop: " + signToken(f, f.Colos[0].Node, fleettest.ChatPath, body, time.Now())
	for name, answer := range map[string]string{
		"200":                          plainOK,
		"200 that says it":             strings.Replace(plainOK, "\r\n", "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n", 1),
		"101 for another key":          switched + "websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n\x81\x02hi",
		"101 that repeats the key":     switched + "websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n\x81\x02hi",
		"101 without a key":            switched + "websocket\r\n\r\n" + plainOK,
		"101 to h2c":                   switched + "h2c\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"101 to nothing":               "HTTP/1.1 101 Switching Protocols\r\n\r\n" + plainOK,
		"101 with a length":            switched + "websocket\r\nContent-Length: 2\r\n\r\nhi" + plainOK,
		"426":                          "HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n",
		"400":                          "HTTP/1.1 400 No\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		"500":                          "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
		"100 and 200":                  "HTTP/1.1 100 Continue\r\n\r\n" + plainOK,
		"nothing that is HTTP":         "\x81\x02hi\r\n\r\n",
		"101 in the middle of the 1xx": "HTTP/1.1 103 Hints\r\n\r\n" + switched + "websocket\r\n\r\n",
	} {
		answers.Store(answer)
		for _, address := range []string{f.Entry.Address, f.Colos[0].Address} {
			w := wiretest.Dial(t, address)
			w.Send("GET /v1/realtime?model=own HTTP/1.1", []string{"Host: fleet", token, upgradeLines}, saidBehind)
			endsAfter(w, name, func(status int) bool { return status >= 400 })
			// And one that nobody asked for, of which all but 101 is an answer like any other.
			w = wiretest.Dial(t, address)
			w.Send(firstLine, []string{"Host: fleet", plainToken, "Content-Type: application/json", "Connection: Upgrade", "Upgrade: h2c", fmt.Sprintf("Content-Length: %d", len(body))}, body+saidBehind)
			endsAfter(w, name+", unasked", func(status int) bool {
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
			t.Errorf("%s: the engine was asked %d times", name, len(heard))
		}
	}
}

// endsAfter expects one answer, and then the connection's end.
func endsAfter(w *wiretest.Conn, name string, may func(status int) bool) {
	w.T.Helper()
	defer w.Close()
	a := w.Read()
	if !may(a.Status) || a.Err != nil || a.Header.Get("Connection") != "close" || a.Header.Get("Upgrade") != "" {
		w.T.Errorf("%s: answered %d %v %v %.200q", name, a.Status, a.Header, a.Err, a.Body)
	}
	if how := w.End(); how != "closed" {
		w.T.Errorf("%s: the connection ended: %s", name, how)
	}
}

// Requests to switch to what is not spoken, or where it is not, are refused or passed over before anybody is asked, and
// are their connection's last.
func TestRefusedUpgrades(t *testing.T) {
	f, engine, _ := upgradeFleet(t)
	token := "x-colonnade-hop: " + signTokenFor(f, hop.Binding{Audience: f.Colos[0].Node, Method: "GET", Path: "/v1/realtime"}, time.Now())
	for _, c := range []struct {
		first, lines string
		status       int // of an entry
	}{
		{"GET /v1/realtime?model=own HTTP/1.1", "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk", 400},
		{"GET /v1/realtime?model=own HTTP/1.1", "Connection: Upgrade\r\nUpgrade: websocket, h2c", 400},
		{"GET /v1/realtime?model=own HTTP/1.1", strings.Replace(upgradeLines, "Upgrade: websocket", "Upgrade: websocket\r\nUpgrade: h2c", 1), 400},
		{"GET /v1/realtime?model=own HTTP/1.1", strings.Replace(upgradeLines, "Connection: Upgrade", "Connection: close", 1), 400},
		{"GET /v1/realtime?model=own HTTP/1.1", strings.Replace(upgradeLines, "13", "99", 1), 400},
		{"GET /v1/realtime?model=own HTTP/1.1", strings.Replace(upgradeLines, "Sec-WebSocket-Key", "Sec_WebSocket_Key", 1), 400},
		{"GET /v1/realtime?model=own HTTP/1.1", upgradeLines + "\r\nContent-Length: 5", 400},
		{"GET /v1/realtime?model=own HTTP/1.1", upgradeLines + "\r\nTransfer-Encoding: chunked", 400},
		{"GET /v1/realtime?model=own HTTP/1.0", upgradeLines, 400},
		{"GET /v1/realtime?model=nobody HTTP/1.1", upgradeLines, 404},
		{"GET /v1/realtime?model=plain HTTP/1.1", upgradeLines, 400},
		{"POST /v1/realtime?model=own HTTP/1.1", upgradeLines + "\r\nContent-Length: 0", 400},
		{"GET /v1/chat/completions HTTP/1.1", upgradeLines, 405},
		{"GET /v1/models HTTP/1.1", "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk", 200},
		{"GET /v1/models HTTP/1.1", upgradeLines, 200},
		{"GET /health HTTP/1.1", upgradeLines, 200},
		{"OPTIONS * HTTP/1.1", "Connection: Upgrade\r\nUpgrade: TLS/1.0", 400},
		{"CONNECT fleet:80 HTTP/1.1", upgradeLines, 405},
		{"PRI * HTTP/2.0", "", 400},
	} {
		for _, peer := range []bool{false, true} {
			if peer && strings.Contains(c.first, "/v1/realtime?") && !strings.Contains(c.first, "model=own") {
				continue // that an entry believes what it asks for is its own affair
			}
			address, name := f.Entry.Address, c.first+" "+c.lines
			if peer {
				address = f.Colos[0].Address
			}
			lines := []string{"Host: fleet", token}
			if c.lines != "" {
				lines = append(lines, c.lines)
			}
			w := wiretest.Dial(t, address)
			w.Send(c.first, lines, saidBehind)
			endsAfter(w, name, func(status int) bool { return status == c.status && !peer || peer && status/100 == 4 })
		}
	}
	if heard, garbled := engine.rewind(); len(heard)+len(garbled) > 0 {
		t.Errorf("the engine was sent %q %q", heard, garbled)
	}
}
