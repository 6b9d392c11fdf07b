package entry

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/internal/testkit"
)

const evil = "evil-bytes"

// rawColo is the documents of a colo whose only server says a text to each connection, more for as long as that is read,
// and then waits for the end. again counts requests on a connection that was not fit for them.
func rawColo(t *testing.T, name, text, more string) (documents string, again *atomic.Int64) {
	t.Helper()
	again = new(atomic.Int64)
	address := testkit.Serve(t, func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		br := bufio.NewReader(c)
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, err = io.WriteString(c, text)
		for err == nil && more != "" {
			_, err = io.WriteString(c, more)
		}
		if _, err := http.ReadRequest(br); err == nil {
			again.Add(1)
		}
	})
	return fmt.Sprintf("---\nkey: colos/%s\nregion: eu\n---\nkey: servers/%[1]s/%[1]s-1\naddress: %s\nboot: x\n", name, address), again
}

// Whatever speaks in a colo's place: nothing of what it says reaches a client, another colo is asked if nothing was
// answered yet, the connection serves no other request, and each request has its one final event.
func TestHostileColo(t *testing.T) {
	const model = "key: models/m\nrouting: {steps: [{colos: [ams]}, {colos: [fra]}]}\ntimeouts: {total: 10s}\n"
	const head = "HTTP/1.1 200 OK\r\nX-Colonnade-Attempts: 1\r\n"
	served := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(hop.HeaderAttempts, "1")
		_, _ = io.WriteString(w, `{"served":true}`)
	}
	for _, c := range []struct {
		name, text, more string
		once             bool // it has answered: no other colo is asked
	}{
		{name: "both framings", text: head + "Content-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\n" + evil},
		{name: "neither a length nor chunks", text: head + "Connection: close\r\n\r\n" + evil},
		{name: "two lengths", text: head + "Content-Length: 10\r\nContent-Length: 11\r\n\r\n" + evil},
		{name: "LF after the status", text: "HTTP/1.1 200 OK\nContent-Length: 10\r\nX-Colonnade-Attempts: 1\r\n\r\n" + evil},
		{name: "a folded line", text: head + "X-A: b\r\n c\r\nContent-Length: 10\r\n\r\n" + evil},
		{name: "NUL in a verdict", text: head + "X-Colonnade-Verdict: e\x00rror\r\nContent-Length: 10\r\n\r\n" + evil},
		{name: "an endless line", text: head + "X-A: ", more: strings.Repeat("x", 4<<10)},
		{name: "a flood of 1xx", more: "HTTP/1.1 103 Early Hints\r\n\r\n"},
		{name: "a switch of protocols", text: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + evil},
		{name: "204 with a body", text: "HTTP/1.1 204 No\r\nX-Colonnade-Attempts: 1\r\nContent-Length: 10\r\n\r\n" + evil},
		{name: "status 999", text: "HTTP/1.1 999 No\r\nX-Colonnade-Attempts: 1\r\nContent-Length: 10\r\n\r\n" + evil},
		{name: "an endless chunk size", text: head + "Transfer-Encoding: chunked\r\n\r\n", more: "0000"},
		{name: "chunks that are not ended", text: head + "Transfer-Encoding: chunked\r\n\r\na\r\n" + evil + "XX\r\n", once: true},
		{name: "another verdict's long list", text: "HTTP/1.1 503 No\r\nX-Colonnade-Verdict: " + strings.Repeat("ooc;", 2000) + "\r\nContent-Length: 10\r\nConnection: close\r\n\r\n" + evil},
		{name: "a flood behind a verdict", text: "HTTP/1.1 503 No\r\nX-Colonnade-Verdict: error;number=50001\r\n\r\n", more: strings.Repeat(evil, 1<<10)},
		{name: "HTML", text: head + "Content-Type: text/html\r\nContent-Length: 10\r\nConnection: close\r\n\r\n" + evil},
		{name: "gzip", text: head + "Content-Encoding: gzip\r\nContent-Length: 10\r\nConnection: close\r\n\r\n" + evil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ams, again := rawColo(t, "ams", c.text, c.more)
			table := tableOf(t, model+ams+colo(t, "fra", served))
			events := t.TempDir()
			url, e := startEntryWith(t, Config{Logger: slog.New(slog.DiscardHandler), Table: func() *fleet.Table { return table }}, events)
			for range 2 {
				status, answer := chat(t, url, request)
				if c.once && (status != 502 || !strings.Contains(answer, `"reason":"colo_unreachable"`)) || !c.once && (status != 200 || answer != `{"served":true}`) {
					t.Errorf("answer %d %.300q", status, answer)
				}
				if strings.Contains(answer, evil) {
					t.Errorf("the client got %.300q", answer)
				}
			}
			if n := again.Load(); n > 0 {
				t.Errorf("%d requests on a connection that was not fit for them", n)
			}
			if errs := e.Check(); len(errs) > 0 || e.inflight.Count() > 0 {
				t.Error(errs, e.inflight.Count())
			}
			ends := 0
			for ev, err := range journal.ReadDir(events) {
				if err != nil {
					t.Fatal(err)
				}
				if ev.Phase == analytics.PhaseEnd {
					ends++
				}
			}
			if ends != 2 {
				t.Errorf("%d final events of 2 requests", ends)
			}
		})
	}
}
