package trust_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// tap is a network between an entry and a colo server, on which everything that the entry sends is recorded.
type tap struct {
	address string
	to      string // the colo server's address; set before the first connection

	mu    sync.Mutex         // guards the field below
	heard []*strings.Builder // of each connection
}

func startTap(t testing.TB) *tap {
	p := &tap{}
	p.address = testkit.Serve(t, func(entry net.Conn) {
		colo, err := net.Dial("tcp", p.to)
		if err != nil {
			t.Error(err)
			return
		}
		heard := &strings.Builder{}
		p.mu.Lock()
		p.heard = append(p.heard, heard)
		p.mu.Unlock()
		var back sync.WaitGroup
		back.Go(func() {
			_, _ = io.Copy(entry, colo)
			entry.Close()
		})
		_, _ = io.Copy(io.MultiWriter(colo, writer(func(b []byte) {
			p.mu.Lock()
			defer p.mu.Unlock()
			heard.Write(b)
		})), entry)
		colo.Close()
		back.Wait()
	})
	return p
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

// requests returns the recorded requests, byte by byte.
func (p *tap) requests() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, heard := range p.heard {
		for _, rest := range strings.Split(heard.String(), firstLine)[1:] {
			all = append(all, firstLine+rest)
		}
	}
	return all
}

// Requests that were recorded between an entry and a colo server are refused when they are sent again: nothing reaches the engine, and
// nothing is billed. Each inference has an event id of its own. The document of the server was put by hand and names no process of
// it, which costs the first request a second way there.
func TestRecordedRequestsAreRefused(t *testing.T) {
	network := startTap(t)
	engine, documents := startTape(t)
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}},
		documents+"routing: {steps: [{colos: [mirror]}]}\n---\nkey: colos/mirror\nregion: nowhere\n---\nkey: servers/mirror/ams-1\naddress: "+
			network.address+"\nboot: by-hand\nstate: active\nprotocol: {min: 1, max: 1}\n")
	f.WatchShared(32)
	network.to = f.Colos[0].Address
	long := strings.Replace(fleettest.StubBody, "[]", `["`+strings.Repeat("x", 4<<20)+`"]`, 1) // refused before it has arrived
	for _, body := range []string{long, fleettest.StubBody, fleettest.StubBody} {
		if a := f.Chat(body); a.Status != 200 {
			t.Fatalf("answered %d %.300q", a.Status, a.Body)
		}
	}
	heard, _ := engine.rewind()
	recorded := network.requests()
	if len(heard) != 3 || len(recorded) != 4 {
		t.Fatalf("the engine got %d requests, and %d were recorded", len(heard), len(recorded))
	}
	refused := new(atomic.Int64)
	var all sync.WaitGroup
	for _, wire := range recorded {
		for range 5 {
			all.Go(func() {
				w := wiretest.Dial(t, f.Colos[0].Address)
				defer w.Close()
				if _, err := io.WriteString(w, wire); err != nil {
					t.Error(err)
				}
				if a := w.Read(); a.Status == 403 {
					refused.Add(1)
				} else {
					t.Errorf("a recorded request was answered with %d %.300q", a.Status, a.Body)
				}
			})
		}
	}
	all.Wait()
	engine.check(t, "recorded requests")
	if n := f.Metric(f.Colos[0].Admin, `colonnade_hop_tokens_refused_total{kind="replayed"}`); refused.Load() != 20 || n != 15 {
		t.Errorf("%d requests were refused, %v of them as replayed", refused.Load(), n)
	}
	ids := map[string][]analytics.Phase{}
	testkit.WaitFor(t, "the events of three inferences", func() bool {
		clear(ids)
		for e, err := range journal.ReadDir(f.Colos[0].DataDir) {
			if err == nil && e.Kind == analytics.KindInference && e.Model == "own" {
				ids[e.EventID] = append(ids[e.EventID], e.Phase)
			}
		}
		return len(ids) >= 3
	})
	if len(ids) != 3 {
		t.Errorf("%d event ids: %v", len(ids), ids)
	}
}
