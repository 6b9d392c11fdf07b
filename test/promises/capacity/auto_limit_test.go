package capacity_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

// kneeEngine runs 16 requests at full speed. Up to 256 share the throughput of 16.
func kneeEngine() simengine.Config {
	return simengine.Config{Slots: 256, Knee: 16, TTFT: 50 * time.Millisecond, ITL: 10 * time.Millisecond, Tokens: 16}
}

const autoBounds = "concurrency: auto\nauto: {min: 2, max: 96}"

// loadStreams starts clients that request one stream after another. stop returns how many streams were complete, and the times
// to the first token without the wait in the queue, sorted.
func loadStreams(f *fleettest.Fleet, n int) (stop func() (answers int, firsts []time.Duration)) {
	ctx, cancel := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	var mu sync.Mutex
	var firsts []time.Duration
	var answers atomic.Int64
	for range n {
		clients.Go(func() {
			for ctx.Err() == nil {
				first, ok := streamOnce(ctx, f)
				if !ok {
					continue
				}
				answers.Add(1)
				mu.Lock()
				firsts = append(firsts, first)
				mu.Unlock()
			}
		})
	}
	end := func() {
		cancel()
		clients.Wait()
	}
	f.T.Cleanup(end)
	return func() (int, []time.Duration) {
		n := int(answers.Load())
		end()
		slices.Sort(firsts)
		return n, firsts
	}
}

// streamOnce reads one stream to its end, and returns the time to the first token without the wait in the queue.
func streamOnce(ctx context.Context, f *fleettest.Fleet) (first time.Duration, complete bool) {
	began := time.Now()
	a, err := f.Open(ctx, "/chat/completions", fleettest.ChatBody(16, true))
	if err != nil {
		return 0, false
	}
	defer a.Body.Close()
	first = time.Since(began)
	var queued int64
	_, _ = fmt.Sscan(a.Header.Get("x-colonnade-queued-ms"), &queued)
	body, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK || !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
		return 0, false
	}
	return first - time.Duration(queued)*time.Millisecond, true
}

// Under saturation, the automatic limit comes near the engine's knee. It is shown, is never exceeded, and survives a fixed limit
// in between. The test is alone, since the limit is found by measuring times.
func TestAutoLimitFindsKnee(t *testing.T) {
	const (
		clients = 72
		most    = 64
		bounds  = "concurrency: auto\nauto: {min: 2, max: 64}"
	)
	f := fleettest.Start(t, fleettest.OneColo(kneeEngine()), fleettest.LongQueue)
	f.Watch(2 * clients)
	o := f.Operator()
	engine := f.Engine("ams")
	o.Put(f.EndpointDocument("sim-1", 0, "demo", bounds))
	f.ExpectSoon("the initial limit", func() bool { return f.Pool("ams", "demo").Limit == 8 })
	engine.ResetPeak()
	stop := loadStreams(f, clients)
	near := 0
	testkit.WaitFor(t, "a limit near the knee", func() bool {
		p := f.Pool("ams", "demo")
		if p.Limit > 8 && p.Limit <= 48 && p.Queued > 0 {
			near++
		}
		return near > 50
	})
	e := f.Endpoint(f.Engines[0].URL)
	if e.Auto == nil || e.Auto.Min != 2 || e.Auto.Max != most || e.Concurrency < 2 || e.Concurrency > most {
		t.Errorf("shown as %+v, %+v", e, e.Auto)
	}
	if answers, _ := stop(); answers == 0 {
		t.Error("no stream was complete")
	}
	if peak := engine.Stats().Peak; peak > most {
		t.Errorf("the engine had %d in flight, at most %d may be", peak, most)
	}
	f.ExpectSoon("no more requests", func() bool { p := f.Pool("ams", "demo"); return p.Held == 0 && p.Queued == 0 })
	found := f.Endpoint(f.Engines[0].URL)
	o.Put(f.EndpointDocument("sim-1", 0, "demo", "concurrency: 5"))
	f.ExpectSoon("a limit of 5", func() bool { return f.Pool("ams", "demo").Limit == 5 })
	engine.ResetPeak()
	stop = loadStreams(f, clients)
	testkit.WaitFor(t, "requests to wait", func() bool { return f.Pool("ams", "demo").Queued > clients/2 })
	stop()
	if peak := engine.Stats().Peak; peak != 5 {
		t.Errorf("the engine had at most %d in flight, want the limit of 5", peak)
	}
	o.Put(f.EndpointDocument("sim-1", 0, "demo", bounds))
	f.ExpectSoon("the limit that was found before", func() bool {
		e := f.Endpoint(f.Engines[0].URL)
		// A probe, which lowers the limit for a while, may have been under way before.
		return e.Auto != nil && e.Auto.Samples >= found.Auto.Samples && e.Concurrency >= found.Concurrency
	})
}

// The automatic limit is better than a fixed one that is too high and than one that is too low, on the same engine and in the
// same run: on an engine whose requests share the throughput beyond 16, and on one that queues them inside.
func TestAutoLimitBeatsFixed(t *testing.T) {
	if !testkit.Soak() {
		t.Skip("measures for two minutes: COLONNADE_SOAK=1 does")
	}
	queueing := kneeEngine()
	queueing.Slots, queueing.Knee = 16, 0
	t.Run("sharing", func(t *testing.T) { compareLimits(t, kneeEngine()) })
	t.Run("queueing", func(t *testing.T) { compareLimits(t, queueing) })
}

func compareLimits(t *testing.T, engine simengine.Config) {
	f := fleettest.Start(t, fleettest.OneColo(engine), fleettest.LongQueue)
	f.Watch(240)
	high, low, auto := underLimit(f, "concurrency: 96"), underLimit(f, "concurrency: 3"), underLimit(f, autoBounds)
	t.Logf("fixed at 96: %v\nfixed at 3: %v\nauto: %v", high, low, auto)
	t.Logf("auto: %.2f of the answers of 96 and %.2f of its time to the first token; %.1f times the answers of 3",
		auto.rate/high.rate, float64(auto.p50)/float64(high.p50), auto.rate/low.rate)
	if auto.rate < 0.9*high.rate || 2*auto.p50 > high.p50 || auto.rate < 3*low.rate {
		t.Error("the automatic limit is not good enough")
	}
}

// figures are what clients measured under one limit.
type figures struct {
	least, most int     // of the limit in force
	rate        float64 // answers a second
	p50, p99    time.Duration
}

func (m figures) String() string {
	return fmt.Sprintf("limit %d to %d, %.1f answers a second, first token after %v (p50), %v (p99)", m.least, m.most, m.rate,
		m.p50.Round(time.Millisecond), m.p99.Round(time.Millisecond))
}

func underLimit(f *fleettest.Fleet, document string) figures {
	f.Operator().Put(f.EndpointDocument("sim-1", 0, "demo", document))
	stop := loadStreams(f, 120)
	time.Sleep(10 * time.Second) // to settle
	stop()
	began, m := time.Now(), figures{least: 1 << 20}
	stop = loadStreams(f, 120)
	for time.Since(began) < 10*time.Second {
		time.Sleep(20 * time.Millisecond)
		limit := f.Pool("ams", "demo").Limit
		m.least, m.most = min(m.least, limit), max(m.most, limit)
	}
	took := time.Since(began).Seconds()
	answers, firsts := stop()
	m.rate, m.p50, m.p99 = float64(answers)/took, firsts[len(firsts)/2], firsts[len(firsts)*99/100]
	return m
}
