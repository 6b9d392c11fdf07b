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
	to      atomic.Pointer[string] // the colo server's address; set before the first connection

	mu    sync.Mutex         // guards the field below
	heard []*strings.Builder // of each connection
}

func startTap(t testing.TB) *tap {
	p := &tap{}
	p.address = testkit.Serve(t, func(entry net.Conn) {
		colo, err := net.Dial("tcp", *p.to.Load())
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
		record := writer(func(b []byte) {
			p.mu.Lock()
			defer p.mu.Unlock()
			heard.Write(b)
		})
		_, _ = io.Copy(io.MultiWriter(record, colo), entry)
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

// documents returns the end of a model's document, by which its requests go through the tap, and the documents of the colo there: it
// has the name of a real server, and names no process of it, as if it was put by hand.
func (p *tap) documents() string {
	return "routing: {steps: [{colos: [mirror]}]}\n---\nkey: colos/mirror\nregion: nowhere\n---\nkey: servers/mirror/ams-1\naddress: " +
		p.address + "\nboot: by-hand\nstate: active\nprotocol: {min: 1, max: 1}\n"
}

// requests returns the recorded requests with a first line, byte by byte.
func (p *tap) requests(first string) (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, heard := range p.heard {
		for _, rest := range strings.Split(heard.String(), first)[1:] {
			all = append(all, first+rest)
		}
	}
	return all
}

// replay sends each of the recorded requests several times at once, and expects that all are refused.
func replay(f *fleettest.Fleet, recorded []string) {
	f.T.Helper()
	var all sync.WaitGroup
	for _, wire := range recorded {
		for range 5 {
			w := wiretest.Dial(f.T, f.Colos[0].Address)
			all.Go(func() {
				defer w.Close()
				if _, err := io.WriteString(w, wire); err != nil {
					f.T.Error(err)
				}
				if a := w.Read(); a.Status != 403 {
					f.T.Errorf("a recorded request was answered with %d %.300q", a.Status, a.Body)
				}
			})
		}
	}
	all.Wait()
}

// expectInferences expects so many event ids of inferences for a model.
func expectInferences(f *fleettest.Fleet, model string, n int) {
	f.T.Helper()
	ids := map[string][]analytics.Phase{}
	testkit.WaitFor(f.T, "the events", func() bool {
		clear(ids)
		ends := 0
		for e, err := range journal.ReadDir(f.Colos[0].DataDir) {
			if err == nil && e.Kind == analytics.KindInference && e.Model == model {
				ids[e.EventID] = append(ids[e.EventID], e.Phase)
				if e.Phase == analytics.PhaseEnd {
					ends++
				}
			}
		}
		return ends >= n
	})
	if len(ids) != n {
		f.T.Errorf("the events of %d inferences have the ids %v", n, ids)
	}
}

// Requests that were recorded between an entry and a colo server are refused when they are sent again: nothing reaches the engine, and
// nothing is billed. Each inference has an event id of its own. The first request goes twice, since the document of the server names
// no process of it.
func TestRecordedRequestsAreRefused(t *testing.T) {
	network := startTap(t)
	engine, documents := startTape(t)
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, documents+network.documents())
	f.WatchShared(32)
	network.to.Store(&f.Colos[0].Address)
	long := strings.Replace(fleettest.StubBody, "[]", `["`+strings.Repeat("x", 4<<20)+`"]`, 1) // refused before it has arrived
	for _, body := range []string{long, fleettest.StubBody, fleettest.StubBody} {
		if a := f.Chat(body); a.Status != 200 {
			t.Fatalf("answered %d %.300q", a.Status, a.Body)
		}
	}
	heard, _ := engine.rewind()
	recorded := network.requests(firstLine)
	if len(heard) != 3 || len(recorded) != 4 {
		t.Fatalf("the engine got %d requests, and %d were recorded", len(heard), len(recorded))
	}
	replay(f, recorded)
	engine.check(t, "recorded requests")
	if n := f.Metric(f.Colos[0].Admin, `colonnade_hop_tokens_refused_total{kind="replayed"}`); n != 15 {
		t.Errorf("%v requests were refused as replayed", n)
	}
	expectInferences(f, "own", 3)
}

// A recorded handshake opens no session, also beside the one that it opened.
func TestRecordedHandshakeIsRefused(t *testing.T) {
	network := startTap(t)
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}},
		"key: models/demo-realtime\ntype: realtime\npool: demo\n"+network.documents())
	f.WatchShared(32)
	network.to.Store(&f.Colos[0].Address)
	s := f.DialRealtime("demo-realtime")
	s.Hear("session.created")
	recorded := network.requests("GET /v1/realtime?model=demo-realtime HTTP/1.1")
	if len(recorded) != 2 {
		t.Fatalf("%d handshakes were recorded", len(recorded))
	}
	replay(f, recorded)
	s.HangUp(1000, "")
	replay(f, recorded)
	expectInferences(f, "demo-realtime", 1)
}
