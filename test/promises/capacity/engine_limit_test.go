package capacity_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// resetting returns a view of the fleet whose client resets connections instead of closing them.
func resetting(f *fleettest.Fleet) *fleettest.Fleet {
	view := *f
	view.Client = &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 1000,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return c, c.(*net.TCPConn).SetLinger(0)
		},
	}}
	f.T.Cleanup(view.Client.CloseIdleConnections)
	return &view
}

// cancellingClients is clients that send one request after another, half of which they cancel at a random moment.
type cancellingClients struct {
	ctx    context.Context
	cancel context.CancelFunc
	all    sync.WaitGroup
	bodies func(tokens int, stream bool) string

	served, cancelled, refused, failed atomic.Int64
	lost                               atomic.Int64 // without a response
}

// startCancellingClients starts clients. stop must follow.
func startCancellingClients(f *fleettest.Fleet, clients int, bodies func(tokens int, stream bool) string) *cancellingClients {
	c := &cancellingClients{bodies: bodies}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	views := []*fleettest.Fleet{f, resetting(f)}
	for n := range clients {
		c.all.Go(func() {
			for c.ctx.Err() == nil {
				c.once(views[n%2])
			}
		})
	}
	f.T.Cleanup(c.stop)
	return c
}

// check expects that some requests were served, some cancelled, and none lost; and that none failed, unless mayFail.
func (c *cancellingClients) check(t testing.TB, mayFail bool) {
	t.Helper()
	served, cancelled, failed, lost := c.served.Load(), c.cancelled.Load(), c.failed.Load(), c.lost.Load()
	t.Logf("served %d, cancelled %d, refused %d, failed %d, lost %d", served, cancelled, c.refused.Load(), failed, lost)
	if served == 0 || cancelled == 0 || lost > 0 || failed > 0 && !mayFail {
		t.Error("want some served, some cancelled, none lost, and none failed but by their engine")
	}
}

func (c *cancellingClients) stop() {
	c.cancel()
	c.all.Wait()
}

// once sends one request, which may want queue events. The client may leave before, in or after the response.
func (c *cancellingClients) once(f *fleettest.Fleet) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	if rand.IntN(2) == 0 {
		stop := time.AfterFunc(rand.N(120*time.Millisecond), cancel)
		defer stop.Stop()
	}
	var headers []string
	stream := rand.IntN(2) == 0
	if stream && rand.IntN(2) == 0 {
		headers = fleettest.QueueEventsHeader
	}
	r, err := f.Open(ctx, "/chat/completions", c.bodies(1+rand.IntN(10), stream), headers...)
	var begin []byte
	if err == nil {
		if begin, err = io.ReadAll(io.LimitReader(r.Body, 4<<10)); err == nil {
			_, err = io.Copy(io.Discard, r.Body)
		}
		r.Body.Close()
	}
	switch {
	case ctx.Err() != nil:
		c.cancelled.Add(1)
	case r == nil:
		c.lost.Add(1)
	case err != nil && (bytes.Contains(begin, []byte(`"number":42902`)) || bytes.Contains(begin, []byte(`"number":50301`))):
		c.refused.Add(1)
	case err != nil:
		c.failed.Add(1)
	case r.StatusCode == http.StatusOK:
		c.served.Add(1)
	case r.StatusCode == http.StatusTooManyRequests || r.StatusCode == http.StatusServiceUnavailable:
		c.refused.Add(1)
		time.Sleep(time.Millisecond)
	default:
		c.failed.Add(1)
	}
}

// An engine never has more requests than its limit, though half of all requests are cancelled at random moments and the limit
// changes while they run.
func TestEngineIsNeverOverLimit(t *testing.T) {
	period := 400 * time.Millisecond
	if testkit.Soak() {
		period = 5 * time.Second
	}
	f := fleettest.Start(t, onebox.Config{
		Colos: []string{"ams"}, Engine: simengine.Config{Slots: 4, TTFT: 60 * time.Millisecond, ITL: time.Millisecond},
	}, fleettest.LongQueue)
	f.Watch(100)
	engine := f.Engine("ams")
	c := startCancellingClients(f, 24, fleettest.ChatBody)
	limit := 4
	for _, next := range []int{4, 8, 2, 6, 1, 3} {
		f.ApplyAndWait(endpointOf(f, "sim-1", "demo", next), func() bool { return f.Pool("ams", "demo").Limit == next })
		if next < limit {
			// Requests that run may end; the limit holds from then on.
			testkit.WaitFor(t, "the running requests to be within the new limit", func() bool { return f.Pool("ams", "demo").Held <= next })
		}
		limit = next
		engine.ResetPeak()
		time.Sleep(period)
		testkit.WaitFor(t, "the engine to be used to its limit", func() bool { return engine.Stats().Peak >= limit })
		if peak := engine.Stats().Peak; peak > limit {
			t.Errorf("the engine had %d in flight at once, with a limit of %d", peak, limit)
		}
	}
	c.stop()
	c.check(t, false)
}

// endpointOf returns a document that puts the first engine into a pool.
func endpointOf(f *fleettest.Fleet, id, pool string, concurrency int) string {
	return fmt.Sprintf("key: endpoints/ams/%s\nurl: %s\npool: %s\nconcurrency: %d\n", id, f.Engines[0].URL, pool, concurrency)
}

// Permits belong to the engine, not to its document: it stays within its limit while it moves from pool to pool under changing
// names.
func TestEngineMovesUnderLoad(t *testing.T) {
	t.Parallel()
	const limit = 3
	f := fleettest.Start(t, onebox.Config{
		Colos: []string{"ams"}, Engine: simengine.Config{Slots: limit, TTFT: 2 * time.Millisecond, ITL: time.Millisecond},
	}, fleettest.LongQueue+"\n---\nkey: pools/second\nqueue: {limit: 100}\n---\nkey: models/second-chat\npool: second\nupstream_name: demo-chat")
	f.WatchShared(100)
	engine := f.Engine("ams")
	engine.ResetPeak()
	c := startCancellingClients(f, 16, func(tokens int, stream bool) string {
		if rand.IntN(2) == 0 {
			return fmt.Sprintf(`{"model":"second-chat","stream":%v,"max_tokens":%d,"messages":[]}`, stream, tokens)
		}
		return fleettest.ChatBody(tokens, stream)
	})
	o, last := f.Operator(), "sim-1"
	for n := range testkit.AtScale(12, 100) {
		// Of two documents for one engine, the one that was first counts, and then the other.
		id, pool := fmt.Sprintf("moved-%03d", 999-n/2), []string{"second", "demo"}[n%2]
		o.Put(endpointOf(f, id, pool, limit))
		if id != last {
			o.Remove("endpoints/ams/" + last)
			last = id
		}
		testkit.WaitFor(t, "the documents to be in force", func() bool {
			at := f.Pool("ams", pool)
			return len(at.Endpoints) == 1 && at.Endpoints[0].ID == id && at.Held > 0
		})
		time.Sleep(rand.N(50 * time.Millisecond))
	}
	testkit.WaitFor(t, "the engine to be used to its limit", func() bool { return engine.Stats().Peak >= limit })
	c.stop()
	if peak := engine.Stats().Peak; peak > limit {
		t.Errorf("the engine had %d in flight at once, with a limit of %d", peak, limit)
	}
	c.check(t, false)
}
