package hops_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/internal/faultproxy"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// linkedFleet has one colo, to which requests go over a link.
type linkedFleet struct{ *fleettest.Fleet }

func startLinked(t *testing.T, engine simengine.Config, documents string) *linkedFleet {
	t.Helper()
	latency := onebox.Latency{onebox.Pair{onebox.EntryPlace, "ams"}: 2 * time.Millisecond} // through a proxy
	f := &linkedFleet{fleettest.Start(t, onebox.Config{Engine: engine, Colos: []string{"ams"}, Latency: latency}, documents)}
	f.WatchShared(48 + engine.Slots)
	f.awaitLink()
	return f
}

// streams returns how many requests are on links to the colo.
func (f *linkedFleet) streams() int {
	return int(f.Metric(f.Colos[0].Admin, `colonnade_link_streams{direction="in"}`))
}

// awaitLink sends requests until there is a link: the first ones do not wait for it.
func (f *linkedFleet) awaitLink() {
	f.T.Helper()
	testkit.WaitFor(f.T, "a link", func() bool {
		return f.Chat(fleettest.ChatBody(1, false)).Status == http.StatusOK && f.Metric(f.Colos[0].Admin, `colonnade_links{direction="in"}`) > 0
	})
}

// begin begins n streams over links, which last longer than any test.
func (f *linkedFleet) begin(n int) (clients []*wiretest.Conn) {
	f.T.Helper()
	for range n {
		c := f.BeginChat(chat("demo-chat", 1<<20, true))
		var head wiretest.Response
		if err := c.ReadHead(&head); err != nil || head.Status != http.StatusOK {
			f.T.Fatalf("%d %v", head.Status, err)
		}
		clients = append(clients, c)
	}
	testkit.WaitFor(f.T, fmt.Sprintf("%d streams on links", n), func() bool { return f.streams() >= n })
	return clients
}

func (f *linkedFleet) held() int { return f.Pool("ams", "demo").Held }

// Without links, each request has a connection of its own.
func TestWithoutLinks(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.SteadyEngine(4), Colos: []string{"ams"}, NoLinks: true}, "")
	for range 20 {
		if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != http.StatusOK || a.Err != nil {
			t.Errorf("%d %v", a.Status, a.Err)
		}
	}
	if n := f.Metric(f.Colos[0].Admin, `colonnade_links{direction="in"}`); n != 0 {
		t.Errorf("%v links", n)
	}
}

// When a link is lost, none of its streams looks complete, all slots are free at once, and the next requests are served.
func TestLinkLostMidStreams(t *testing.T) {
	t.Parallel()
	const streams = 50
	engine := fleettest.SteadyEngine(streams + 8)
	engine.ITL = 200 * time.Millisecond // the buffers of a connection hold what comes before the test reads it
	f := startLinked(t, engine, "---\nkey: defaults\nmodel: {timeouts: {connect: 30s, idle: 20s}}\n")
	for _, fault := range []faultproxy.Fault{{Kind: faultproxy.Reset}, {Kind: faultproxy.Cut}, {Kind: faultproxy.Swallow}} {
		clients := f.begin(streams)
		if fault.Kind == faultproxy.Swallow {
			f.Proxy(onebox.EntryPlace, "ams-1").Inject(fault) // found by the silence of the other side
		} else {
			f.Proxy(onebox.EntryPlace, "ams-1").InjectOpen(fault)
		}
		for _, c := range clients {
			rest, err := c.ReadChunked()
			if err == nil || strings.Count(rest, `data: {"error"`) != 1 || strings.Contains(rest, "[DONE]") {
				t.Errorf("%s: a stream ended with %v, %.300q; want an error event and no end", fault.Kind, err, rest[max(0, len(rest)-300):])
			}
			c.Close()
		}
		testkit.WaitFor(t, "all slots to be free", func() bool { return f.held() == 0 })
		f.Proxy(onebox.EntryPlace, "ams-1").Heal()
		f.awaitLink()
	}
}

// A client that leaves frees its slot, and the other streams of the link go on.
func TestClientLeavesItsStream(t *testing.T) {
	t.Parallel()
	f := startLinked(t, fleettest.SteadyEngine(8), "")
	clients := f.begin(8)
	if n := f.Metric(f.Entry.Admin, `colonnade_link_streams{direction="out"}`); n < 8 {
		t.Errorf("the entry has %v streams on links, want at least 8", n)
	}
	for i, c := range clients[:7] {
		c.Close()
		testkit.WaitFor(t, "the slot to be free", func() bool { return f.held() == 7-i })
	}
	clients[7].ReadUntil(`"delta":{"content":`, 3)
	clients[7].Close()
	testkit.WaitFor(t, "all slots to be free", func() bool { return f.held() == 0 })
	if links := f.Metric(f.Colos[0].Admin, `colonnade_links{direction="in"}`); links == 0 {
		t.Error("the link has ended")
	}
}

// A client that does not read delays no other stream of its link.
func TestStalledReaderOfALink(t *testing.T) {
	t.Parallel()
	f := startLinked(t, fleettest.SteadyEngine(4), "")
	f.Engine("ams").SetFault(simengine.Fault{Fault: simengine.FaultBigAnswer, Count: 1})
	stalled, err := f.Open(t.Context(), "/chat/completions", fleettest.ChatBody(8, true))
	if err != nil {
		t.Fatal(err)
	}
	defer stalled.Body.Close()
	testkit.WaitFor(t, "the stream to be on a link", func() bool { return f.streams() == 1 })
	for range 20 {
		if a := f.Chat(fleettest.ChatBody(8, true)); a.Status != http.StatusOK || a.Err != nil {
			t.Errorf("beside a reader that stalls: %d %v", a.Status, a.Err)
		}
	}
	if f.streams() != 1 {
		t.Error("the stalled stream has ended")
	}
	if _, err := io.CopyN(io.Discard, stalled.Body, 64<<10); err != nil {
		t.Error(err)
	}
}
