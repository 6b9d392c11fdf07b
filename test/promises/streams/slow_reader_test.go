package streams_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"colonnade/colo"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// While all engines of one model hang, requests for another model take no longer than before.
func TestHungModelDoesNotSlowOthers(t *testing.T) {
	requests, rounds, pause := 100, 3, time.Millisecond
	if testkit.Soak() {
		requests, rounds, pause = 500, 5, 20*time.Millisecond
	}
	own, documents := fleettest.StartStubEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(pause)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"x","choices":[]}`)
	})
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4)}, documents)
	f.Watch(24) // fasthttp keeps the goroutines of the connections for some seconds
	f.InjectFault(simengine.FaultStallHead, 0)
	slots := 4 * len(f.Engines)

	var alone, beside []time.Duration
	for range rounds {
		alone = append(alone, p99(t, f, requests))
		release := hang(f, 20)
		testkit.WaitFor(t, "every slot and queue of the other model to be taken", func() bool { return f.RunningRequests() == slots })
		beside = append(beside, p99(t, f, requests))
		if n := f.RunningRequests(); n != slots {
			t.Errorf("%d requests of the other model hang, want %d", n, slots)
		}
		release()
	}
	slices.Sort(alone)
	slices.Sort(beside)
	before, during := alone[rounds/2], beside[rounds/2]
	t.Logf("p99 alone %v, beside a model that hangs %v", before, during)
	limit := 10 * max(before, 20*time.Millisecond)
	if testkit.Soak() {
		limit = before * 11 / 10
	}
	if during > limit {
		t.Errorf("p99 is %v beside a model that hangs and %v without: want at most %v", during, before, limit)
	}
	if n := own.Requests.Load(); n != int64(2*rounds*requests) {
		t.Errorf("%d requests arrived, want each of %d once", n, 2*rounds*requests)
	}
	f.ClearFaults()
}

// p99 sends requests for the stub engine's model, and returns the 99th percentile of their times.
func p99(t *testing.T, f *fleettest.Fleet, requests int) time.Duration {
	took := f.Latencies(t, requests)
	return took[len(took)*99/100]
}

// hang keeps clients sending requests for the demo's model, until they are released.
func hang(f *fleettest.Fleet, clients int) (release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				_, _ = f.Post(ctx, "/chat/completions", fleettest.ChatBody(8, true)) // refused, or cancelled at the end
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// For clients that never read, what is buffered is bounded, in the process and in the kernel; the engine is paused, and its
// requests are cancelled after the longest stall.
func TestStalledReaders(t *testing.T) {
	readers, stall := 16, 4*time.Second
	if testkit.Soak() {
		readers, stall = 200, 10*time.Second
	}
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(readers), WriteStall: stall, Colos: []string{"ams"}}, "")
	f.Watch(8 + readers) // fasthttp keeps their goroutines for some seconds
	e := f.Engine("ams")
	e.SetFault(simengine.Fault{Fault: simengine.FaultBigAnswer})
	heap, sent := fleettest.LiveBytes(), e.Stats().Bytes
	clients := make([]*wiretest.Conn, readers)
	for i := range clients {
		clients[i] = dialSlow(t, f.Entry.Address)
		clients[i].Post("/v1/chat/completions", fleettest.ChatBody(8, i%2 == 0))
	}
	testkit.WaitFor(t, "every client to be answered", func() bool { return e.Stats().Bytes-sent > uint64(readers)*64<<10 })
	settled := settledBytes(f) - sent
	if n := e.Stats().Running; n != readers {
		t.Errorf("%d of %d requests still run: the machine is too slow to see them paused", n, readers)
	}
	// In the sockets of two nodes, and the engine's own, which holds 128 KiB.
	if each := settled / uint64(readers); each > 1<<20+192<<10 {
		t.Errorf("the engine has written %d KiB for each stalled client, want at most 1 MiB", each>>10)
	}
	checkSockets(f, readers)
	// Two nodes and the engine, with both ends of every connection, are in this process. The colo has up to 256 KiB in a backlog.
	each := (fleettest.LiveBytes() - heap) / int64(readers)
	t.Logf("this process: %d KiB for each", each>>10)
	if each > int64(testkit.AtScale(768, 576))<<10 {
		t.Errorf("%d KiB of memory for each stalled client", each>>10)
	}
	testkit.WaitFor(t, "the engine to be cancelled", func() bool { return e.Stats().Running == 0 })
	if st := e.Stats(); st.Aborted != uint64(readers) {
		t.Errorf("%d of %d requests were cancelled: %+v", st.Aborted, readers, st)
	}
	e.ClearFaults()
	for _, c := range clients {
		c.Close()
	}
	for _, stream := range []bool{false, true} {
		if a := f.Chat(fleettest.ChatBody(8, stream)); a.Status != 200 || a.Err != nil {
			t.Errorf("the next request: %d %v", a.Status, a.Err)
		}
	}
}

// Ways between the two nodes, where requests share connections.
const (
	entryToColo = "entry, to the colo"
	coloToEntry = "colo, to the entry"
)

// held is the memory that the kernel holds for some sockets.
type held struct {
	sockets int
	bytes   int64 // not yet read here, or not yet acknowledged by the other end
	memory  int64 // with the overhead
}

// checkSockets expects that the kernel holds at most 1 MiB for each client, on both sides of a node.
func checkSockets(f *fleettest.Fleet, clients int) {
	f.T.Helper()
	node := map[string]held{}
	for what, h := range heldByNodes(f) {
		f.T.Logf("%s: %d sockets, %d KiB in each, which take %d KiB", what, h.sockets, h.bytes>>10/int64(clients), h.memory>>10/int64(clients))
		least := clients
		if what == entryToColo || what == coloToEntry { // by links
			least = 1
		}
		if h.sockets < least {
			f.T.Errorf("%s: %d sockets, want at least %d", what, h.sockets, least)
		}
		name, _, _ := strings.Cut(what, ",")
		n := node[name]
		node[name] = held{bytes: n.bytes + h.bytes, memory: n.memory + h.memory}
	}
	for name, n := range node {
		if each := n.memory / int64(clients); each > 1<<20 || n.bytes == 0 {
			f.T.Errorf("%s: the kernel holds %d KiB for each stalled client, want at most 1 MiB", name, each>>10)
		}
	}
}

// dialSlow connects with the smallest receive buffer, so that the fleet has to buffer what it sends.
func dialSlow(t testing.TB, address string) *wiretest.Conn {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	c, err := d.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return wiretest.NewConn(t, c)
}

// settledBytes waits until the engines have written nothing for 300 ms, and returns how many bytes they have written.
func settledBytes(f *fleettest.Fleet) uint64 {
	written := func() (n uint64) {
		for _, e := range f.Engines {
			n += e.Simulated.Stats().Bytes
		}
		return n
	}
	last, since := written(), time.Now()
	testkit.WaitFor(f.T, "the engines to pause", func() bool {
		if now := written(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	})
	return last
}

// Slow readers do not lower the cost of a slot second, even if they leave in the end.
func TestSlowReadersKeepSlotCost(t *testing.T) {
	const requests = 16 // from which on the cost is known
	engine := fleettest.QuickEngine(requests)
	engine.TTFT, engine.ITL = 20*time.Millisecond, 20*time.Millisecond
	f := fleettest.Start(t, onebox.Config{Engine: engine, Colos: []string{"ams"}}, "")
	f.Watch(8 + requests)
	ask := func(width int) (clients []*wiretest.Conn) {
		for range requests {
			c := dialSlow(t, f.Entry.Address)
			c.Post("/v1/chat/completions", strings.Replace(fleettest.ChatBody(32, true), "hello", fmt.Sprintf("wide:%d hello", width), 1))
			clients = append(clients, c)
		}
		return clients
	}
	compare := func() (before, after float64) {
		for _, c := range ask(8) {
			c.ExpectProperEnd()
			c.Close()
		}
		testkit.WaitFor(t, "all slots to be free", func() bool { return f.Pool("ams", "demo").Held == 0 })
		before = slotCost(f)
		clients := ask(64 << 10) // 2 MiB, half of which fits into the buffers on the way
		settledBytes(f)
		time.Sleep(900 * time.Millisecond) // as long again as all of it takes without a stall
		for _, c := range clients {
			c.Close()
		}
		testkit.WaitFor(t, "all slots to be free again", func() bool { return f.Pool("ams", "demo").Held == 0 })
		return before, slotCost(f)
	}
	for attempt := 1; ; attempt++ { // other processes make slots cheaper, too
		before, after := compare()
		t.Logf("a slot second costs %.0f, and did %.0f before the slow readers", after, before)
		if after >= 0.75*before {
			return
		}
		if attempt == 4 {
			t.Fatal("slow readers have made slots cheaper")
		}
	}
}

// slotCost returns the cost of a slot second in the demo's pool of the first colo.
func slotCost(f *fleettest.Fleet) float64 {
	f.T.Helper()
	var pools []colo.PoolState
	if err := json.Unmarshal(f.Page(f.Colos[0].Admin, "/debug/pools"), &pools); err != nil || len(pools) != 1 || pools[0].CostPerSlotSecond == nil {
		f.T.Fatalf("%v: %+v", err, pools)
	}
	return *pools[0].CostPerSlotSecond
}

// A client that reads slowly, but reads, is served for any number of times the longest stall.
func TestSlowReaderIsServed(t *testing.T) {
	t.Parallel()
	const stall = 800 * time.Millisecond
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), WriteStall: stall}, "")
	f.WatchShared(8)
	f.InjectFault(simengine.FaultBigAnswer, 1)
	w := dialSlow(t, f.Entry.Address)
	w.Post("/v1/chat/completions", fleettest.ChatBody(8, false))
	began := time.Now()
	last := began
	for read := 0; time.Since(began) < 3*stall; time.Sleep(stall / 8) {
		n, err := io.ReadFull(w.R, make([]byte, 128<<10))
		if read += n; err != nil && time.Since(last) < stall/2 { // else the machine was too slow to read in time
			t.Fatalf("cut after %d bytes and %v: %v", read, time.Since(began), err)
		} else if err != nil {
			t.Logf("not judged: the client read nothing for %v", time.Since(last))
			break
		}
		last = time.Now()
	}
	w.Close()
}

// Silence between two tokens does not end a stream: neither the longest stall of a write nor a client's deadline counts it. In a
// soak, a token comes every 20 s, with the default timeouts.
func TestSilenceBetweenTokens(t *testing.T) {
	t.Parallel()
	silence, stall := 700*time.Millisecond, 200*time.Millisecond
	documents := "key: defaults\nmodel: {timeouts: {first_byte: 20s, idle: 20s}}"
	if testkit.Soak() {
		silence, stall, documents = 20*time.Second, 0, ""
	}
	f := fleettest.Start(t, onebox.Config{Engine: simengine.Config{Slots: 4, TTFT: time.Millisecond, ITL: silence}, WriteStall: stall}, documents)
	f.WatchShared(8)
	var all sync.WaitGroup
	for _, api := range streamAPIs {
		all.Go(func() {
			w := wiretest.Dial(t, f.Entry.Address)
			_ = w.SetDeadline(time.Now().Add(testkit.Timeout + 10*silence))
			body := strings.NewReplacer(":8,", ":4,").Replace(api.body)
			for range 2 { // the second on a connection that was used before
				w.Post(api.path, body, "x-colonnade-deadline-ms: 1500", "x-stainless-timeout: 1.6")
				a := w.Read()
				events := readEvents(t, a.Body)
				if got := textOf(events); a.Status != 200 || a.Err != nil || got != "every request takes its" {
					t.Errorf("%s: %d %v, said %q", api.name, a.Status, a.Err, got)
				}
			}
		})
	}
	all.Wait()
}
