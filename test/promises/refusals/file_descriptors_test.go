package refusals_test

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// exhaustFiles connects to the entry until the process has no files left, and returns the connections.
func exhaustFiles(f *fleettest.Fleet) (all []net.Conn) {
	f.T.Helper()
	for range 100 {
		c, err := net.Dial("tcp", f.Entry.Address)
		if err != nil {
			return all
		}
		all = append(all, c)
	}
	f.T.Error("files did not run out")
	return all
}

func closeAll(all []net.Conn) {
	for _, c := range all {
		c.Close()
	}
}

// While a process has no file descriptors left, running streams continue. Once it has some again, new requests are served.
func TestNoDescriptorsLeft(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engine: fleettest.SteadyEngine(4)}, "")
	f.Watch(1)
	w := f.BeginChat(fleettest.ChatBody(100, true))
	w.ReadUntil("data:", 1)
	restore := testkit.LimitFiles(t, 8) // each connection takes two
	conns := exhaustFiles(f)
	w.ReadUntil("data:", 20) // for longer than the listener waits before it accepts again
	restore()
	closeAll(conns)
	if rest, err := w.ReadChunked(); err != nil || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the running stream was cut: %v after %.200q", err, rest[max(0, len(rest)-200):])
	}
	if a := f.RawChat(fleettest.ChatBody(3, true)); a.Status != 200 || a.Err != nil {
		t.Errorf("afterwards: %d, %v", a.Status, a.Err)
	}
}

// While a process has no file descriptors left, a request that needs a further connection to a colo server or an engine fails at
// once. No engine is ejected for it, and no closed connection stays counted.
func TestNoDescriptorsForUpstream(t *testing.T) {
	const clients = 12
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engine: fleettest.SteadyEngine(clients), MaxConnsPerIP: 100},
		"key: defaults\nmodel: {timeouts: {connect: 10s}}") // a slow machine is no dead engine
	var there []*wiretest.Conn
	for range clients {
		w := wiretest.Dial(t, f.Entry.Address)
		w.Send("GET /health/live HTTP/1.1", []string{"Host: x"}, "")
		if a := w.Read(); a.Status != 200 {
			t.Fatalf("a probe: %d", a.Status)
		}
		there = append(there, w)
	}
	open, descriptors := f.Metric(f.Entry.Admin, "colonnade_connections"), openDescriptors(t)
	restore := testkit.LimitFiles(t, 8)
	conns := exhaustFiles(f)
	askAll := func() (statuses map[int]int) {
		statuses = map[int]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, w := range there {
			all.Go(func() {
				w.Post("/v1/chat/completions", fleettest.ChatBody(2, false))
				a := w.Read()
				if a.Err != nil || a.Status != 200 && a.APIError(t).Code == "" {
					t.Errorf("%d %v %.200q", a.Status, a.Err, a.Body)
				}
				mu.Lock()
				defer mu.Unlock()
				statuses[a.Status]++
			})
		}
		all.Wait()
		return statuses
	}
	began := time.Now()
	short := askAll()
	t.Logf("without descriptors: %v, after %v", short, time.Since(began))
	if short[200] == clients {
		t.Error("no request needed a further connection")
	}
	for status := range short {
		if status != 200 && status != 502 && status != 503 {
			t.Errorf("a request was answered with %d", status)
		}
	}
	restore()
	closeAll(conns)
	if up := f.Metric(f.Colos[0].Admin, `colonnade_endpoints{pool="demo",state="up"}`); up != 1 {
		t.Errorf("%v engines are up, want 1", up)
	}
	if after := askAll(); after[200] != clients {
		t.Errorf("afterwards: %v", after)
	}
	testkit.WaitFor(t, "the closed connections to be counted no more", func() bool { return f.Metric(f.Entry.Admin, "colonnade_connections") <= open })
	closeWires(there)
	const idle = 4 * clients // between the nodes and the engine, either end
	testkit.WaitFor(t, "the descriptors to be closed", func() bool { return openDescriptors(t) <= descriptors+idle })
	f.Watch(idle) // not before, since its probes take files
}

func closeWires(all []*wiretest.Conn) {
	for _, w := range all {
		w.Close()
	}
}
