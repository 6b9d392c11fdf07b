package release_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"colonnade/analytics"
	"colonnade/discovery/etcd"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/node"
	"colonnade/onebox"
)

// stored returns a document in etcd; it is empty if there is none or etcd does not answer.
func stored(f *fleettest.Fleet, key string) string {
	f.T.Helper()
	fleettest.NeedsFleet(f.T, "an etcd")
	client, err := etcd.Dial([]string{f.Etcd})
	if err != nil {
		f.T.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	answer, err := client.Get(ctx, node.Prefix+key)
	if err != nil || len(answer.Kvs) == 0 {
		return ""
	}
	return string(answer.Kvs[0].Value)
}

// When one of two colos drains, its streams run to their end, its waiting requests move to the other colo without using up a
// retry, and so do new requests.
func TestColoDrains(t *testing.T) {
	t.Parallel()
	fleettest.NeedsFleet(t, "a colo server that ends before the entry")
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.SteadyEngine(2), Drain: testkit.Timeout},
		"key: models/demo-chat\npool: demo\nretry: {errors: 0, out_of_capacity: 0}\nrouting: {steps: [{colos: [ams]}, {colos: [fra]}]}\n---\n"+
			"key: pools/demo\nqueue: {max_wait: 1m}\n")
	f.Engine("ams").SetPace(time.Millisecond, 10*time.Second) // so that streams last until Finish
	var streams, waiters []*wiretest.Conn
	for range 2 {
		w := f.BeginChat(fleettest.ChatBody(250, true))
		w.ReadUntil("data:", 1)
		streams = append(streams, w)
	}
	for i := range 5 {
		waiters = append(waiters, f.Enqueue(i+1, "x-colonnade-queue: wait", "x-request-id: waiter-"+strconv.Itoa(i)))
	}
	ended := f.EndNode("ams-1")
	for i, w := range waiters {
		a := w.Read()
		if a.Status != 200 || a.Header.Get("x-colonnade-colo") != "fra" || a.Header.Get("x-colonnade-attempts") != "1" {
			t.Errorf("a waiting request got %d %v %.200q", a.Status, a.Header, a.Body)
		}
		e := f.FinalEvent(analytics.KindRequest, "waiter-"+strconv.Itoa(i))
		if e.Outcome != analytics.OutcomeCompleted || len(e.ColoPath) != 2 {
			t.Errorf("a waiting request ended with %q after %v", e.Outcome, e.ColoPath)
		}
	}
	for range 20 {
		if a := f.RawChat(fleettest.ChatBody(1, false)); a.Status != 200 || a.Header.Get("x-colonnade-colo") != "fra" {
			t.Errorf("a new request got %d %v %.200q", a.Status, a.Header, a.Body)
		}
	}
	f.Engine("ams").Finish()
	for _, w := range streams {
		if rest, err := w.ReadChunked(); err != nil || !strings.HasSuffix(rest, "data: [DONE]\n\n\r\n0\r\n\r\n") {
			t.Errorf("a stream ended with %v, %.200q", err, rest[max(0, len(rest)-200):])
		}
	}
	ended()
	if a := f.RawChat(fleettest.ChatBody(1, false)); a.Status != 200 {
		t.Errorf("afterwards: %d %.200q", a.Status, a.Body)
	}
}

// When the only colo drains, waiting and new requests are refused with the reason draining and a Retry-After.
func TestLastColoDrains(t *testing.T) {
	t.Parallel()
	fleettest.NeedsFleet(t, "a colo server that ends before the entry")
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engine: fleettest.SteadyEngine(1), Drain: testkit.Timeout}, "key: pools/demo\nqueue: {max_wait: 1m}\n")
	f.Engine("ams").SetPace(time.Millisecond, 10*time.Second) // so that the stream lasts until Finish
	stream := f.BeginChat(fleettest.ChatBody(250, true))
	stream.ReadUntil("data:", 1)
	waiter := f.Enqueue(1, "x-request-id: the-waiter")
	f.EndNode("ams-1")
	unavailable := fleettest.Refusal{Status: 503, Number: 50301, Code: "unavailable", Type: "server_error", Reason: "draining"}
	unavailable.Expect(t, waiter.Read())
	if e := f.FinalEvent(analytics.KindRequest, "the-waiter"); e.Outcome != analytics.OutcomeRefused || e.Reason != "draining" {
		t.Errorf("the waiting request ended with %q, %q", e.Outcome, e.Reason)
	}
	unavailable.Expect(t, f.RawChat(fleettest.ChatBody(1, false)))
	f.Engine("ams").Finish()
	if rest, err := stream.ReadChunked(); err != nil || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the stream ended with %v", err)
	}
}

// A stream that still runs when the time of a drain is over ends by an error event and a close, whichever node drains, and a plain
// request by an error with the same reason.
func TestDrainEndsStreamsByErrorEvent(t *testing.T) {
	t.Parallel()
	entryDrained := analytics.OutcomeClientGone
	if fleettest.Direct() || fleettest.Serve() {
		entryDrained = analytics.OutcomeDrained // the colo knows why the request ended, and not only that it did
	}
	for _, c := range []struct {
		node                  string
		HopRequest, inference analytics.Outcome
	}{
		{"entry-1", analytics.OutcomeDrained, entryDrained},
		{"ams-1", analytics.OutcomeDrained, analytics.OutcomeDrained},
	} {
		t.Run(c.node, func(t *testing.T) {
			f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engine: fleettest.SteadyEngine(6), Drain: 500 * time.Millisecond}, "")
			var streams []*wiretest.Conn
			for i := range 5 {
				w := f.BeginChat(fleettest.ChatBody(100_000, true), "x-request-id: stream-"+strconv.Itoa(i))
				w.ReadUntil("data:", 1)
				streams = append(streams, w)
			}
			plain := f.BeginChat(fleettest.ChatBody(100_000, false))
			testkit.WaitFor(t, "all requests to run", func() bool { return f.RunningRequests() == 6 })
			ended := f.EndNode(c.node)
			fleettest.Refusal{Status: 503, Number: 50301, Code: "unavailable", Type: "server_error", Reason: "draining"}.Expect(t, plain.Read())
			for i, w := range streams {
				rest, err := w.ReadChunked()
				if !errors.Is(err, io.EOF) || strings.Contains(rest, "[DONE]") {
					t.Errorf("a stream ended with %v", err)
				}
				if _, last, _ := strings.Cut(rest, `data: {"error"`); !strings.Contains(last, `"reason":"draining"`) {
					t.Errorf("a stream ended with %q", rest[max(0, len(rest)-300):])
				}
				id := "stream-" + strconv.Itoa(i)
				if e := f.FinalEvent(analytics.KindRequest, id); e.Outcome != c.HopRequest || !e.Partial {
					t.Errorf("at the entry %q, want %q", e.Outcome, c.HopRequest)
				}
				if e := f.FinalEvent(analytics.KindInference, id); e.Outcome != c.inference || !e.Partial {
					t.Errorf("at the colo %q, want %q", e.Outcome, c.inference)
				}
			}
			ended()
		})
	}
}

// A draining colo gets no new sessions. Those that run may go on until the time is over, and then end by close frame 1001 and
// without a reset; so do those of a draining entry.
func TestDrainOfSessions(t *testing.T) {
	t.Parallel()
	fleettest.NeedsFleet(t, "a colo server that ends before the entry")
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Drain: time.Duration(testkit.AtScale(5, 2)) * time.Second}, "")
	o := f.Operator()
	first := f.DialRealtime("demo-realtime")
	first.Hear("session.created")
	if colo := first.Header.Get("x-colonnade-colo"); colo != "ams" {
		t.Fatalf("the session is in %q", colo)
	}
	ended := f.EndNode("ams-1")
	testkit.WaitFor(t, "the colo to drain", func() bool { return !f.IsReady(f.Colos[0].Admin) })
	first.Say(`{"type":"response.create"}`)
	first.Hear("response.done")
	second := f.DialRealtime("demo-realtime")
	second.Hear("session.created")
	if colo := second.Header.Get("x-colonnade-colo"); colo != "fra" {
		t.Errorf("a new session is in %q", colo)
	}
	expectDrained(f, first)
	ended()
	ended = f.EndNode("entry-1")
	testkit.WaitFor(t, "the entry to be draining in etcd", func() bool {
		stored := o.Get(node.Prefix + "entries/entry-1").Kvs
		return len(stored) == 1 && strings.Contains(string(stored[0].Value), `"state":"draining"`)
	})
	if f.IsReady(f.Entry.Admin) {
		t.Error("a draining entry is ready")
	}
	expectDrained(f, second)
	ended()
}

// expectDrained expects that a session ends by 1001, as its events say.
func expectDrained(f *fleettest.Fleet, s fleettest.Session) {
	f.T.Helper()
	s.ExpectClose(1001, "")
	if _, _, err := s.ReadMessage(); !websocket.IsCloseError(err, 1001) {
		f.T.Errorf("after the close frame: %v", err)
	}
	if _, inference := f.LastEvents(s.Header.Get("x-request-id")); !inference.Partial {
		f.T.Errorf("inference event %+v", inference)
	}
}

// A node leaves etcd before its admin listener closes, so that its end can be observed.
func TestAdminListenerClosesLast(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1)}, "")
	for _, n := range []struct{ name, admin, key string }{
		{"ams-1", f.Colos[0].Admin, "servers/ams/ams-1"}, {"entry-1", f.Entry.Admin, "entries/entry-1"},
	} {
		testkit.WaitFor(t, "the node to be in etcd", func() bool { return stored(f, n.key) != "" })
		ended := f.EndNode(n.name)
		testkit.WaitFor(t, "the admin listener to close", func() bool {
			c, err := net.Dial("tcp", n.admin)
			if err == nil {
				c.Close()
			}
			return errors.Is(err, syscall.ECONNREFUSED)
		})
		if document := stored(f, n.key); document != "" {
			t.Errorf("the admin listener of %s is closed, and etcd has %s", n.name, document)
		}
		ended()
	}
}
