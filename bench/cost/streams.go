package cost

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/bench/child"
)

// stream reads streams at once, and counts their chunks.
func (m *measurement) stream(_ context.Context, r *running) (units int, round Round) {
	var t counters
	var chunks atomic.Int64
	var clients sync.WaitGroup
	request := chatRequest(m.place.key, "m", &streamShape{m.size.Chunks, m.size.GapMillis})
	for range m.size.Streams {
		clients.Go(func() {
			n := int64(0)
			t.add(readOne(r.address, request, func() { n++ }))
			chunks.Add(n)
		})
	}
	clients.Wait()
	round.P50, round.P99, round.Late = math.NaN(), math.NaN(), math.NaN()
	t.into(&round)
	return int(chunks.Load()), round
}

// readOne reads one stream on a connection of its own.
func readOne(address string, request []byte, each func()) error {
	c, err := dial(address)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.readStream(request, each)
}

const messageBytes = 1280 // 20 ms of speech

// normalClosure is the code 1000.
func normalClosure() []byte { return []byte{3, 0xe8} }

// talk has sessions send messages, each when the echo of the last has arrived.
func (m *measurement) talk(_ context.Context, r *running) (units int, round Round) {
	var t counters
	var clients sync.WaitGroup
	message := frame{textFrame, bytes.Repeat([]byte("*"), messageBytes)}.appendTo(nil, true)
	for range m.size.Sessions {
		clients.Go(func() {
			c, err := openSocket(r.address, m.place.key)
			if err != nil {
				t.add(err)
				return
			}
			defer c.Close()
			for range m.size.Messages {
				err := c.exchange(message)
				if t.add(err); err != nil {
					return
				}
			}
			_, _ = c.Write(frame{closeFrame, normalClosure()}.appendTo(nil, true))
		})
	}
	clients.Wait()
	round.P50, round.P99, round.Late = math.NaN(), math.NaN(), math.NaN()
	return t.into(&round), round
}

// streamSet is streams that stay open until they are ended.
type streamSet struct {
	counters
	clients sync.WaitGroup
	opened  atomic.Int64
	gaps    [][]float64 // between two chunks, of each stream, in ms
	conns   []*conn

	recording atomic.Bool
	recorded  atomic.Int64 // gaps
}

// openingHands is how many clients open streams at once.
const openingHands = 16

// openStreams opens n streams and returns when each has had its first chunk, or has failed.
func (m *measurement) openStreams(address, model string, n int) *streamSet {
	shape := streamShape{chunks: 1 << 20, gapMillis: m.size.OpenGapMillis}
	c := &streamSet{gaps: make([][]float64, n), conns: make([]*conn, n)}
	request := chatRequest(m.place.key, model, &shape)
	hands := make(chan struct{}, openingHands)
	for i := range n {
		hands <- struct{}{}
		conn, err := dial(address)
		if err != nil {
			c.add(err)
			<-hands
			continue
		}
		c.conns[i] = conn
		c.clients.Go(func() { c.read(i, request, func() { <-hands }) })
	}
	for range openingHands {
		hands <- struct{}{}
	}
	return c
}

// read reads a stream. Its end is a failure, unless the client has closed the connection.
func (c *streamSet) read(i int, request []byte, opened func()) {
	free := sync.OnceFunc(opened)
	defer free()
	var last time.Time
	err := c.conns[i].readStream(request, func() {
		now := time.Now()
		if last.IsZero() {
			c.opened.Add(1)
			free()
		} else if c.recording.Load() {
			c.gaps[i] = append(c.gaps[i], micros(now.Sub(last))/1e3)
			c.recorded.Add(1)
		}
		last = now
	})
	if !strings.Contains(fmt.Sprint(err), "use of closed network connection") {
		c.add(fmt.Errorf("a stream ended: %w", err))
	}
}

// close ends all streams and waits for their clients.
func (c *streamSet) close() {
	for _, conn := range c.conns {
		if conn != nil {
			conn.Close()
		}
	}
	c.clients.Wait()
}

// measureMany opens very many streams, and watches the times between their chunks.
func (m *measurement) measureMany(ctx context.Context, r *running, n int) (Many, error) {
	c := m.openStreams(r.address, "m", n)
	defer c.close()
	sleep(ctx, m.size.Settle/2)
	before, err := child.CPU(r.pids()...)
	if err != nil {
		return Many{}, err
	}
	began := time.Now()
	c.recording.Store(true)
	sleep(ctx, max(m.size.Settle, 3*time.Duration(m.size.OpenGapMillis)*time.Millisecond))
	for c.recorded.Load() < c.opened.Load() && time.Since(began) < answerTimeout && ctx.Err() == nil {
		sleep(ctx, failurePause) // a busy machine is late
	}
	c.recording.Store(false)
	lasted := time.Since(began)
	after, err := child.CPU(r.pids()...)
	if err != nil {
		return Many{}, err
	}
	opened := int(c.opened.Load())
	c.close()
	var round Round
	c.into(&round)
	many := Many{Contestant: r.name, Streams: opened, Failed: round.Failed, FirstFail: round.FirstFail, GapMillis: float64(m.size.OpenGapMillis),
		CPU: (after - before).Seconds() / lasted.Seconds()}
	many.P50, many.P99 = quantiles(c.gaps)
	for _, gaps := range c.gaps {
		many.ChunksASecond += float64(len(gaps)) / lasted.Seconds()
	}
	return many, nil
}

// sleep sleeps unless ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
