package onebox_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/discovery/etcd"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/node"
	"colonnade/onebox"
)

// endNode asks one node to end as SIGTERM does, and waits at the test's end until it has, or when the function is called.
func (f *testFleet) endNode(name string) (wait func()) {
	f.t.Helper()
	over := make(chan error, 1)
	go func() { over <- f.End(name) }()
	wait = sync.OnceFunc(func() {
		f.t.Helper()
		select {
		case err := <-over:
			if err != nil {
				f.t.Errorf("%s ended with: %v", name, err)
			}
		case <-time.After(patience):
			f.t.Errorf("%s has not ended", name)
		}
	})
	f.t.Cleanup(wait)
	return wait
}

// isReady asks an admin listener.
func (f *testFleet) isReady(admin string) bool {
	r, err := http.Get("http://" + admin + "/health/ready")
	if err != nil {
		return false
	}
	r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// stored reads a document in etcd; without one, or without an answer, it is empty.
func (f *testFleet) stored(key string) string {
	f.t.Helper()
	client, err := etcd.Dial([]string{f.Etcd})
	if err != nil {
		f.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := client.Get(ctx, node.Prefix+key)
	if err != nil || len(answer.Kvs) == 0 {
		return ""
	}
	return string(answer.Kvs[0].Value)
}

// steady is an engine whose streams last as long as they have tokens, twenty milliseconds each.
func steady(slots int) simengine.Config {
	return simengine.Config{Slots: slots, TTFT: time.Millisecond, ITL: 20 * time.Millisecond, Tokens: 1 << 20}
}

// With another colo there, nobody notices that one drains: streams end properly where they are, who waits there goes on
// to the other at no cost, and so does whoever comes.
func TestColoDrains(t *testing.T) {
	t.Parallel()
	f := startFleet(t, onebox.Config{Engine: steady(2), Drain: patience},
		"key: models/demo-chat\npool: demo\nretry: {errors: 0, out_of_capacity: 0}\n---\nkey: pools/demo\nqueue: {max_wait: 1m}\n")
	var streams, waiters []*wire
	for range 2 {
		w := f.begin(chatBody(400, true))
		w.readUntil("data:", 1)
		streams = append(streams, w)
	}
	time.Sleep(2200 * time.Millisecond) // by then the entry has forgotten that the colo was full, and tries it first
	for i := range 5 {
		waiters = append(waiters, f.join(i+1, "x-colonnade-queue: wait", "x-request-id: waiter-"+strconv.Itoa(i)))
	}
	ended := f.endNode("ams-1")
	for i, w := range waiters {
		a := w.read()
		if a.Status != 200 || a.Header.Get("x-colonnade-colo") != "fra" || a.Header.Get("x-colonnade-attempts") != "1" {
			t.Errorf("who waited got %d %v %.200q", a.Status, a.Header, a.Body)
		}
		e := f.end(analytics.KindRequest, "waiter-"+strconv.Itoa(i))
		if e.Outcome != analytics.OutcomeCompleted || len(e.ColoPath) != 2 {
			t.Errorf("who waited ended with %q after %v", e.Outcome, e.ColoPath)
		}
	}
	for range 20 {
		if a := f.ask(chatBody(1, false)); a.Status != 200 || a.Header.Get("x-colonnade-colo") != "fra" {
			t.Errorf("who came got %d %v %.200q", a.Status, a.Header, a.Body)
		}
	}
	for _, w := range streams {
		if rest, err := w.readAll(); err != nil || !strings.HasSuffix(rest, "data: [DONE]\n\n\r\n0\r\n\r\n") {
			t.Errorf("a stream ended with %v, %.200q", err, rest[max(0, len(rest)-200):])
		}
	}
	ended()
	if a := f.ask(chatBody(1, false)); a.Status != 200 {
		t.Errorf("afterwards: %d %.200q", a.Status, a.Body)
	}
}

// readAll reads the rest of one chunked answer.
func (w *wire) readAll() (string, error) {
	var got strings.Builder
	piece := make([]byte, 4<<10)
	for !strings.HasSuffix(got.String(), "\r\n0\r\n\r\n") {
		n, err := w.br.Read(piece)
		got.Write(piece[:n])
		if err != nil {
			return got.String(), err
		}
	}
	return got.String(), nil
}

// Where no other colo is left, the client hears why, and when to come back.
func TestLastColoDrains(t *testing.T) {
	t.Parallel()
	f := startFleet(t, onebox.Config{Colos: []string{"ams"}, Engine: steady(1), Drain: patience}, "")
	stream := f.begin(chatBody(400, true))
	stream.readUntil("data:", 1)
	waiter := f.join(1, "x-request-id: the-waiter")
	f.endNode("ams-1")
	unavailable := refusal{status: 503, number: 50301, code: "unavailable", kind: "server_error", reason: "draining"}
	unavailable.expect(t, waiter.read().answer)
	if e := f.end(analytics.KindRequest, "the-waiter"); e.Outcome != analytics.OutcomeRefused || e.Reason != "draining" {
		t.Errorf("who waited ended with %q, %q", e.Outcome, e.Reason)
	}
	unavailable.expect(t, f.ask(chatBody(1, false)))
	if rest, err := stream.readAll(); err != nil || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the stream ended with %v", err)
	}
}

// What still runs when time is over is ended by an error event and a close, whichever of the nodes ends.
func TestDrainEndsStreamsExplicitly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		node               string
		request, inference analytics.Outcome
	}{
		{"entry-1", analytics.OutcomeDrained, analytics.OutcomeClientGone},
		{"ams-1", analytics.OutcomeDrained, analytics.OutcomeDrained},
	} {
		t.Run(c.node, func(t *testing.T) {
			f := startFleet(t, onebox.Config{Colos: []string{"ams"}, Engine: steady(20), Drain: time.Second}, "")
			var streams []*wire
			for i := range 20 {
				w := f.begin(chatBody(100_000, true), "x-request-id: stream-"+strconv.Itoa(i))
				w.readUntil("data:", 1)
				streams = append(streams, w)
			}
			ended := f.endNode(c.node)
			for i, w := range streams {
				rest, err := w.readAll()
				if !errors.Is(err, io.EOF) || strings.Contains(rest, "[DONE]") {
					t.Errorf("a stream ended with %v", err)
				}
				if _, last, _ := strings.Cut(rest, `data: {"error"`); !strings.Contains(last, `"reason":"draining"`) {
					t.Errorf("a stream ended with %q", rest[max(0, len(rest)-300):])
				}
				id := "stream-" + strconv.Itoa(i)
				if e := f.end(analytics.KindRequest, id); e.Outcome != c.request || !e.Partial {
					t.Errorf("at the entry %q, want %q", e.Outcome, c.request)
				}
				if e := f.end(analytics.KindInference, id); e.Outcome != c.inference || !e.Partial {
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
	f := startFleet(t, onebox.Config{Colos: []string{"ams"}, Engine: steady(4), Drain: patience}, "")
	used, idle, unused := dialWire(t, f.Entry.Address), dialWire(t, f.Entry.Address), dialWire(t, f.Entry.Address)
	for _, w := range []*wire{used, idle} {
		w.post("/v1/chat/completions", chatBody(1, false))
		if a := w.read(); a.Status != 200 || a.Header.Get("Connection") != "" {
			t.Errorf("before: %d %v", a.Status, a.Header)
		}
	}
	stream := f.begin(chatBody(400, true))
	stream.readUntil("data:", 1)
	stop, crowd := make(chan struct{}), sync.WaitGroup{}
	crowd.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			drains := !f.isReady(f.Entry.Admin)
			if a := f.ask(chatBody(1, false)); a.Status != 200 || drains && a.Header.Get("Connection") != "close" {
				t.Errorf("who came: %d %v", a.Status, a.Header)
			}
		}
	})
	// Somebody who asks each three seconds, as balancers do, is expected again for nine. A crowd alone may fall silent on a
	// busy machine for as long as the entry waits.
	f.isReady(f.Entry.Address)
	time.Sleep(3 * time.Second)
	f.isReady(f.Entry.Address)
	ended := f.endNode("entry-1")
	testkit.WaitFor(t, "the entry to be unready", func() bool { return !f.isReady(f.Entry.Admin) })
	testkit.WaitFor(t, "the entry to say so in etcd", func() bool { return strings.Contains(f.stored("entries/entry-1"), `"state":"draining"`) })
	used.post("/v1/chat/completions", chatBody(1, false))
	if a := used.read(); a.Status != 200 || a.Header.Get("Connection") != "close" {
		t.Errorf("while draining: %d %v", a.Status, a.Header)
	}
	close(stop)
	crowd.Wait()
	for name, w := range map[string]*wire{"used": used, "idle": idle, "unused": unused} {
		if how := w.ended(); how != "closed" {
			t.Errorf("the %s connection: %s", name, how)
		}
		w.Close()
	}
	if rest, err := stream.readAll(); err != nil || !strings.Contains(rest, "[DONE]") {
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
	f := startFleet(t, onebox.Config{Engine: quick(4), Drain: 2 * time.Second}, "")
	first := f.dial("demo-realtime")
	first.hear("session.created")
	if colo := first.header.Get("x-colonnade-colo"); colo != "ams" {
		t.Fatalf("the session is in %q", colo)
	}
	ended := f.endNode("ams-1")
	testkit.WaitFor(t, "the colo to drain", func() bool { return !f.isReady(f.Colos[0].Admin) })
	second := f.dial("demo-realtime")
	second.hear("session.created")
	if colo := second.header.Get("x-colonnade-colo"); colo != "fra" {
		t.Errorf("a new session is in %q", colo)
	}
	first.ends(1001, "")
	ended()
	ended = f.endNode("entry-1")
	second.ends(1001, "")
	ended()
}

// A node leaves etcd before its admin pages go, so that whoever watches it sees how it has ended.
func TestAdminPagesGoLast(t *testing.T) {
	f := startFleet(t, onebox.Config{Engine: quick(1)}, "")
	for _, n := range []struct{ name, admin, key string }{
		{"ams-1", f.Colos[0].Admin, "servers/ams/ams-1"}, {"entry-1", f.Entry.Admin, "entries/entry-1"},
	} {
		testkit.WaitFor(t, "the node to be in etcd", func() bool { return f.stored(n.key) != "" })
		ended := f.endNode(n.name)
		testkit.WaitFor(t, "the admin pages to go", func() bool {
			c, err := net.Dial("tcp", n.admin)
			if err == nil {
				c.Close()
			}
			return errors.Is(err, syscall.ECONNREFUSED)
		})
		if document := f.stored(n.key); document != "" {
			t.Errorf("%s has no admin pages any more, and stands in etcd with %s", n.name, document)
		}
		ended()
	}
}

// Nothing is waited for that is not there.
func TestDrainWithNothingInHand(t *testing.T) {
	t.Parallel()
	f := startFleet(t, onebox.Config{Drain: time.Minute, Engine: quick(1)}, "")
	if a := f.chat(chatBody(1, false)); a.Status != 200 { // its connection stays open
		t.Fatal(a.Status)
	}
	began := time.Now()
	for _, name := range []string{"ams-1", "entry-1", "fra-1"} {
		f.endNode(name)()
	}
	if took := time.Since(began); took > 45*time.Second {
		t.Errorf("took %v", took)
	} else {
		t.Logf("took %v", took)
	}
}
