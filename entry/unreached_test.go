package entry

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/internal/testkit"
)

// Which colos give no word is known until one does.
func TestUnresponsiveServers(t *testing.T) {
	answers := func(name, value string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if name != "" {
				w.Header().Set(name, value)
			}
			_, _ = io.WriteString(w, `{}`)
		}
	}
	const model = "key: models/m\nrouting: {steps: [{colos: [ams]}, {colos: [fra]}]}\n"
	const closed = "---\nkey: colos/ams\nregion: eu\n---\nkey: servers/ams/ams-1\naddress: 127.0.0.1:1\nboot: x\n"
	serves := colo(t, "fra", answers(hop.HeaderAttempts, "1"))
	var table atomic.Pointer[fleet.Table]
	table.Store(tableOf(t, model+closed+serves))
	url, e := startEntryWith(t, Config{Table: table.Load}, t.TempDir())
	f := func(documents, want string) {
		t.Helper()
		if documents != "" {
			table.Store(tableOf(t, model+documents+serves))
		}
		if status, answer := chat(t, url, request); status != 200 {
			t.Fatalf("answer %d %s", status, answer)
		}
		var who []string
		for _, u := range e.Unresponsive() {
			who = append(who, fmt.Sprintf("%s %d %v", u.Colo, u.Times, u.Last.After(u.Since)))
			if u.Since.IsZero() || u.Error == "" {
				t.Errorf("got %+v", u)
			}
		}
		if got := strings.Join(who, ", "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f("", "ams 1 false")
	f("", "ams 2 true")
	f(colo(t, "ams", answers("", "")), "ams 3 true")
	f(colo(t, "ams", answers(hop.HeaderVerdict, hop.Verdict{Kind: hop.VerdictOOC, Reason: "busy"}.String())), "")
	f(closed, "ams 1 false")
	f(colo(t, "ams", answers(hop.HeaderAttempts, "1")), "")

	// One whose answer is cut short was reached.
	table.Store(tableOf(t, model+colo(t, "ams", func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\nContent-Type: application/json\r\n\r\n{")
		c.Close()
	})+serves))
	if status, answer := chat(t, url, request); status != 502 {
		t.Errorf("answer %d %s", status, answer)
	}
	if u := e.Unresponsive(); len(u) != 0 {
		t.Errorf("got %+v", u)
	}

	// A client that leaves says nothing of the colo.
	arrived, leave := make(chan struct{}), make(chan struct{})
	table.Store(tableOf(t, model+colo(t, "ams", func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-leave
	})+serves))
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	go func() {
		<-arrived
		cancel()
	}()
	if answer, err := http.DefaultClient.Do(r); err == nil {
		answer.Body.Close()
	}
	testkit.WaitFor(t, "the request of a client that has left to be out of hand", func() bool { return e.inflight.Count() == 0 })
	close(leave)
	if u := e.Unresponsive(); len(u) != 0 {
		t.Errorf("got %+v", u)
	}
}
