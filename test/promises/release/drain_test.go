package release_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/discovery/etcd"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/node"
	"colonnade/onebox"
)

// stored reads a document in etcd; without one, or without an answer, it is empty.
func stored(f *fleettest.Fleet, key string) string {
	f.T.Helper()
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

// With another colo there, nobody notices that one drains: streams end properly where they are, who waits there goes on
// to the other at no cost, and so does whoever comes.
func TestColoDrains(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.SteadyEngine(2), Drain: testkit.Timeout},
		"key: models/demo-chat\npool: demo\nretry: {errors: 0, out_of_capacity: 0}\n---\nkey: pools/demo\nqueue: {max_wait: 1m}\n")
	var streams, waiters []*wiretest.Conn
	for range 2 {
		w := f.BeginChat(fleettest.ChatBody(400, true))
		w.ReadUntil("data:", 1)
		streams = append(streams, w)
	}
	time.Sleep(2200 * time.Millisecond) // by then the entry has forgotten that the colo was full, and tries it first
	for i := range 5 {
		waiters = append(waiters, f.Enqueue(i+1, "x-colonnade-queue: wait", "x-request-id: waiter-"+strconv.Itoa(i)))
	}
	ended := f.EndNode("ams-1")
	for i, w := range waiters {
		a := w.Read()
		if a.Status != 200 || a.Header.Get("x-colonnade-colo") != "fra" || a.Header.Get("x-colonnade-attempts") != "1" {
			t.Errorf("who waited got %d %v %.200q", a.Status, a.Header, a.Body)
		}
		e := f.FinalEvent(analytics.KindRequest, "waiter-"+strconv.Itoa(i))
		if e.Outcome != analytics.OutcomeCompleted || len(e.ColoPath) != 2 {
			t.Errorf("who waited ended with %q after %v", e.Outcome, e.ColoPath)
		}
	}
	for range 20 {
		if a := f.RawChat(fleettest.ChatBody(1, false)); a.Status != 200 || a.Header.Get("x-colonnade-colo") != "fra" {
			t.Errorf("who came got %d %v %.200q", a.Status, a.Header, a.Body)
		}
	}
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

// Where no other colo is left, the client hears why, and when to come back.
func TestLastColoDrains(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engine: fleettest.SteadyEngine(1), Drain: testkit.Timeout}, "")
	stream := f.BeginChat(fleettest.ChatBody(400, true))
	stream.ReadUntil("data:", 1)
	waiter := f.Enqueue(1, "x-request-id: the-waiter")
	f.EndNode("ams-1")
	unavailable := fleettest.Refusal{Status: 503, Number: 50301, Code: "unavailable", Type: "server_error", Reason: "draining"}
	unavailable.Expect(t, waiter.Read())
	if e := f.FinalEvent(analytics.KindRequest, "the-waiter"); e.Outcome != analytics.OutcomeRefused || e.Reason != "draining" {
		t.Errorf("who waited ended with %q, %q", e.Outcome, e.Reason)
	}
	unavailable.Expect(t, f.RawChat(fleettest.ChatBody(1, false)))
	if rest, err := stream.ReadChunked(); err != nil || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the stream ended with %v", err)
	}
}

// What still runs when time is over is ended by an error event and a close, whichever of the nodes ends.
func TestDrainEndsStreamsExplicitly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		node                  string
		HopRequest, inference analytics.Outcome
	}{
		{"entry-1", analytics.OutcomeDrained, analytics.OutcomeClientGone},
		{"ams-1", analytics.OutcomeDrained, analytics.OutcomeDrained},
	} {
		t.Run(c.node, func(t *testing.T) {
			f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engine: fleettest.SteadyEngine(20), Drain: time.Second}, "")
			var streams []*wiretest.Conn
			for i := range 20 {
				w := f.BeginChat(fleettest.ChatBody(100_000, true), "x-request-id: stream-"+strconv.Itoa(i))
				w.ReadUntil("data:", 1)
				streams = append(streams, w)
			}
			ended := f.EndNode(c.node)
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

// An entry is not ready any more before it refuses anything. Every answer is its connection's last, connections that
// nobody uses are closed without a reset, and it ends once nobody sends requests.
func TestEntryDrains(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engine: fleettest.SteadyEngine(4), Drain: testkit.Timeout}, "")
	used, idle, unused := wiretest.Dial(t, f.Entry.Address), wiretest.Dial(t, f.Entry.Address), wiretest.Dial(t, f.Entry.Address)
	for _, w := range []*wiretest.Conn{used, idle} {
		w.Post("/v1/chat/completions", fleettest.ChatBody(1, false))
		if a := w.Read(); a.Status != 200 || a.Header.Get("Connection") != "" {
			t.Errorf("before: %d %v", a.Status, a.Header)
		}
	}
	stream := f.BeginChat(fleettest.ChatBody(400, true))
	stream.ReadUntil("data:", 1)
	stop, crowd := make(chan struct{}), sync.WaitGroup{}
	crowd.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			drains := !f.IsReady(f.Entry.Admin)
			if a := f.RawChat(fleettest.ChatBody(1, false)); a.Status != 200 || drains && a.Header.Get("Connection") != "close" {
				t.Errorf("who came: %d %v", a.Status, a.Header)
			}
		}
	})
	// Somebody who asks each three seconds, as balancers do, is expected again for nine. A crowd alone may fall silent on a
	// busy machine for as long as the entry waits.
	f.IsReady(f.Entry.Address)
	time.Sleep(3 * time.Second)
	f.IsReady(f.Entry.Address)
	ended := f.EndNode("entry-1")
	testkit.WaitFor(t, "the entry to be unready", func() bool { return !f.IsReady(f.Entry.Admin) })
	testkit.WaitFor(t, "the entry to say so in etcd", func() bool { return strings.Contains(stored(f, "entries/entry-1"), `"state":"draining"`) })
	used.Post("/v1/chat/completions", fleettest.ChatBody(1, false))
	if a := used.Read(); a.Status != 200 || a.Header.Get("Connection") != "close" {
		t.Errorf("while draining: %d %v", a.Status, a.Header)
	}
	close(stop)
	crowd.Wait()
	for name, w := range map[string]*wiretest.Conn{"used": used, "idle": idle, "unused": unused} {
		if how := w.End(); how != "closed" {
			t.Errorf("the %s connection: %s", name, how)
		}
		w.Close()
	}
	if rest, err := stream.ReadChunked(); err != nil || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the stream ended with %v", err)
	}
	stream.Close()
	ended()
	if _, err := net.Dial("tcp", f.Entry.Address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("afterwards: %v", err)
	}
}

// New sessions go elsewhere at once; those that run may go on until time is over, and then hear 1001.
func TestDrainOfSessions(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Drain: 2 * time.Second}, "")
	first := f.DialRealtime("demo-realtime")
	first.Hear("session.created")
	if colo := first.Header.Get("x-colonnade-colo"); colo != "ams" {
		t.Fatalf("the session is in %q", colo)
	}
	ended := f.EndNode("ams-1")
	testkit.WaitFor(t, "the colo to drain", func() bool { return !f.IsReady(f.Colos[0].Admin) })
	second := f.DialRealtime("demo-realtime")
	second.Hear("session.created")
	if colo := second.Header.Get("x-colonnade-colo"); colo != "fra" {
		t.Errorf("a new session is in %q", colo)
	}
	first.ExpectClose(1001, "")
	ended()
	ended = f.EndNode("entry-1")
	second.ExpectClose(1001, "")
	ended()
}

// A node leaves etcd before its admin pages go, so that whoever watches it sees how it has ended.
func TestAdminPagesGoLast(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1)}, "")
	for _, n := range []struct{ name, admin, key string }{
		{"ams-1", f.Colos[0].Admin, "servers/ams/ams-1"}, {"entry-1", f.Entry.Admin, "entries/entry-1"},
	} {
		testkit.WaitFor(t, "the node to be in etcd", func() bool { return stored(f, n.key) != "" })
		ended := f.EndNode(n.name)
		testkit.WaitFor(t, "the admin pages to go", func() bool {
			c, err := net.Dial("tcp", n.admin)
			if err == nil {
				c.Close()
			}
			return errors.Is(err, syscall.ECONNREFUSED)
		})
		if document := stored(f, n.key); document != "" {
			t.Errorf("%s has no admin pages any more, and stands in etcd with %s", n.name, document)
		}
		ended()
	}
}

// Nothing is waited for that is not there.
func TestDrainWithNothingInHand(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Drain: time.Minute, Engine: fleettest.QuickEngine(1)}, "")
	if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 { // its connection stays open
		t.Fatal(a.Status)
	}
	began := time.Now()
	for _, name := range []string{"ams-1", "entry-1", "fra-1"} {
		f.EndNode(name)()
	}
	if took := time.Since(began); took > 45*time.Second {
		t.Errorf("took %v", took)
	} else {
		t.Logf("took %v", took)
	}
}
