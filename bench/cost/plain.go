package cost

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// counters counts what clients see.
type counters struct {
	done, failed atomic.Int64
	first        atomic.Pointer[error] // that was seen
}

// add counts one unit of work.
func (t *counters) add(err error) {
	if err == nil {
		t.done.Add(1)
		return
	}
	t.failed.Add(1)
	t.first.CompareAndSwap(nil, &err)
}

// into puts the failures into a round, and returns the number of units of work that were done.
func (t *counters) into(r *Round) (units int) {
	if err := t.first.Load(); err != nil {
		r.Failed, r.FirstFail = int(t.failed.Load()), (*err).Error()
	}
	return int(t.done.Load())
}

var errNoConn = errors.New("no connection")

// caller is a client that keeps its connection, and replaces one that failed.
type caller struct {
	address string
	conn    *conn
}

func (c *caller) ask(request []byte) (err error) {
	if c.conn == nil {
		if c.conn, err = dial(c.address); err != nil {
			c.conn = nil
			return errors.Join(errNoConn, err)
		}
	}
	if err = c.conn.ask(request); err != nil {
		c.close()
	}
	return err
}

func (c *caller) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// saturate has clients ask again as soon as they are answered.
func (m *measurement) saturate(ctx context.Context, r *running) (units int, round Round) {
	return m.saturateFor(ctx, r, m.size.PlainTime)
}

// saturateFor does that for a time.
func (m *measurement) saturateFor(ctx context.Context, r *running, lasts time.Duration) (units int, round Round) {
	var t counters
	var clients sync.WaitGroup
	request := chatRequest(m.place.key, "m", nil)
	latencies := make([][]float64, m.size.Clients)
	end := time.Now().Add(lasts)
	for i := range m.size.Clients {
		clients.Go(func() {
			c := caller{address: r.address}
			defer c.close()
			for again := true; again && ctx.Err() == nil; again = time.Now().Before(end) {
				began := time.Now()
				err := c.ask(request)
				t.add(err)
				if err == nil {
					latencies[i] = append(latencies[i], micros(time.Since(began)))
				} else {
					time.Sleep(failurePause)
				}
			}
		})
	}
	clients.Wait()
	round.P50, round.P99 = quantiles(latencies)
	round.Late = math.NaN()
	return t.into(&round), round
}

const failurePause = 10 * time.Millisecond

// spacedClients bounds the requests that are under way in the scenario with a fixed rate; at its rates, a tenth is.
const spacedClients = 256

// space sends requests when they are due, evenly spaced. Each client sleeps until its next request is due, so no request is handed
// from one goroutine to another. If all clients wait for answers, requests are sent late, and latency counts from when they were due.
func (m *measurement) space(ctx context.Context, r *running) (units int, round Round) {
	return m.spaceAt(ctx, r, m.rate, m.size.SpacedTime)
}

// spaceAt does that at a rate, for a time.
func (m *measurement) spaceAt(ctx context.Context, r *running, rate float64, lasts time.Duration) (units int, round Round) {
	var t counters
	latencies, lateness := m.spaced(ctx, r, rate, lasts, &t)
	round.P50, round.P99 = quantiles(latencies)
	_, round.Late = quantiles(lateness)
	return t.into(&round), round
}

// spaced does that and returns each latency, and how long after it was due each request was sent, in µs, by client.
func (m *measurement) spaced(ctx context.Context, r *running, rate float64, lasts time.Duration, t *counters) (latencies, lateness [][]float64) {
	var next atomic.Int64
	var clients sync.WaitGroup
	request := chatRequest(m.place.key, "m", nil)
	total := max(1, int64(rate*lasts.Seconds()))
	latencies, lateness = make([][]float64, spacedClients), make([][]float64, spacedClients)
	began := time.Now()
	for i := range spacedClients {
		clients.Go(func() {
			c := caller{address: r.address}
			defer c.close()
			for n := next.Add(1) - 1; n < total && ctx.Err() == nil; n = next.Add(1) - 1 {
				due := began.Add(time.Duration(float64(n) / rate * float64(time.Second)))
				time.Sleep(time.Until(due))
				lateness[i] = append(lateness[i], micros(time.Since(due)))
				err := c.ask(request)
				t.add(err)
				if err == nil {
					latencies[i] = append(latencies[i], micros(time.Since(due)))
				}
			}
		})
	}
	clients.Wait()
	return latencies, lateness
}

// quantiles returns the median and the 99th percentile of the values of all clients.
func quantiles(of [][]float64) (p50, p99 float64) {
	var all []float64
	for _, values := range of {
		all = append(all, values...)
	}
	return quantile(all, 0.5), quantile(all, 0.99)
}
