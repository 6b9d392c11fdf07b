package durability_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// received are the events that a sink has, by event id and phase.
type received struct {
	mu     sync.Mutex // guards the fields below
	events map[string]analytics.Event
	copies int // of events that came again
}

func (r *received) add(t *testing.T, lines []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.events == nil {
		r.events = map[string]analytics.Event{}
	}
	for scanner := bufio.NewScanner(bytes.NewReader(lines)); scanner.Scan(); {
		var e analytics.Event
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			t.Errorf("a sink has a line that is not an event: %.200q: %v", scanner.Bytes(), err)
			continue
		}
		key := e.EventID + string(e.Phase)
		if _, again := r.events[key]; again {
			r.copies++
		}
		r.events[key] = e
	}
}

// serve takes a batch, sometimes without saying so, and sometimes refuses one.
func (r *received) serve(t *testing.T, w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // the process was killed
	}
	roll := rand.N(10)
	if roll < 2 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if roll != 0 {
		r.add(t, body)
	}
}

// A process is killed twenty times under load, and at each sink arrives every event of the journal, and every answer that a client has had as a
// whole is billed there exactly once.
func TestSinksLoseNothingByKills(t *testing.T) {
	t.Parallel()
	var web, disk received
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) { web.serve(t, w, request) }))
	t.Cleanup(receiver.Close)
	f := proctest.Start(t, proctest.Config{Serve: true, Documents: `
---
key: sinks/disk
url: file:events.jsonl
every: 20ms
batch_events: 7
---
key: sinks/web
url: ` + receiver.URL + `
compression: none
every: 20ms
batch_events: 7
`})
	n := f.Entries[0]
	load := f.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Plain: 3, proctest.Streamed: 3, proctest.Cancelled: 1}})
	for range testkit.AtScale(20, 60) {
		time.Sleep(rand.N(time.Second))
		n.Kill()
		n.Start()
		n.WaitReady()
	}
	load.WaitServed(t, 20)
	results := load.Stop()
	testkit.WaitFor(t, "the sinks", func() bool { return sinksHaveAll(t, n) })
	n.Terminate()

	file, err := os.ReadFile(filepath.Join(n.Dir, "sinks", n.Name, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	disk.add(t, file)
	kept := map[string]analytics.Event{}
	for e, err := range journal.ReadDir(n.Dir) {
		if err == nil && e.Phase == analytics.PhaseEnd {
			kept[e.EventID+string(e.Phase)] = e
		}
	}
	for name, sink := range map[string]*received{"disk": &disk, "web": &web} {
		t.Logf("%s: %d events, %d of them again", name, len(sink.events), sink.copies)
		if len(sink.events) != len(kept) {
			t.Errorf("the sink %s has %d events, and the journal %d", name, len(sink.events), len(kept))
		}
		billed := map[string]int{}
		for key, e := range sink.events {
			if _, ok := kept[key]; !ok {
				t.Errorf("the sink %s has an event that the journal lacks: %+v", name, e)
			}
			if e.Kind == analytics.KindInference && e.Outcome == analytics.OutcomeCompleted {
				billed[e.ClientRequestID]++
			}
		}
		for _, r := range results {
			if r.Outcome == proctest.Complete && billed[r.ID] != 1 {
				t.Errorf("the sink %s bills %v %d times", name, r, billed[r.ID])
			}
		}
	}
}

// sinksHaveAll reports whether nothing waits for a sink.
func sinksHaveAll(t *testing.T, n *proctest.Node) bool {
	_, text := n.Get("/debug/config")
	var c node.ConfigState
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err, text)
	}
	all := len(c.Sinks) == 2
	for _, s := range c.Sinks {
		all = all && s.LagEvents == 0 && s.Problem == ""
		if s.Dropped+s.Rejected > 0 {
			t.Errorf("%+v", s)
		}
	}
	return all
}
