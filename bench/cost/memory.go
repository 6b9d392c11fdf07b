package cost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"colonnade/bench/child"
)

// openMemory measures what an open stream takes in each node of a contestant that was just started: resident memory with the streams, and a
// chunk now and then, less that after some plain requests.
func (m *measurement) openMemory(ctx context.Context, r *running) ([]Held, error) {
	m.warm(r)
	before, err := nodeMemory(r)
	if err != nil {
		return nil, err
	}
	c := m.openStreams(r.address, "m", m.size.Open)
	defer c.close()
	sleep(ctx, m.size.Settle)
	after, err := nodeMemory(r)
	opened := int(c.opened.Load())
	if err == nil && opened < m.size.Open {
		err = fmt.Errorf("%s opened %d of %d streams: %w", r.name, opened, m.size.Open, c.failure())
	}
	return held(r, opened, before, after, 0), err
}

// waitingMemory measures what a waiting request takes in each node, beside its connection and its body: resident memory with
// the requests, less that with as many idle connections, less the body.
func (m *measurement) waitingMemory(ctx context.Context, r *running) ([]Held, error) {
	m.warm(r)
	holder := m.openStreams(r.address, narrow, 1)
	defer holder.close()
	if holder.opened.Load() != 1 {
		return nil, fmt.Errorf("%s does not serve the model %s: %w", r.name, narrow, holder.failure())
	}
	conns := make([]*conn, m.size.Waiting)
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	for i := range conns {
		var err error
		if conns[i], err = dial(r.address); err != nil {
			return nil, err
		}
		if err := conns[i].ask(chatRequest(m.place.key, "m", nil)); err != nil {
			return nil, err
		}
	}
	sleep(ctx, m.size.Settle)
	before, err := nodeMemory(r)
	if err != nil {
		return nil, err
	}
	request := chatRequest(m.place.key, narrow, nil)
	for i, c := range conns { // spread over seconds: a burst would need more memory than the waiting requests
		if _, err := c.Write(request); err != nil {
			return nil, err
		}
		if i%2 == 1 {
			sleep(ctx, time.Millisecond)
		}
	}
	sleep(ctx, m.size.Settle)
	after, err := nodeMemory(r)
	if err != nil {
		return nil, err
	}
	for _, c := range conns { // an answer would be a refusal
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.in.Peek(1); err == nil {
			line, _ := c.in.ReadString('\n')
			return nil, fmt.Errorf("%s answered a request that was to wait: %q", r.name, line)
		}
	}
	return held(r, len(conns), before, after, float64(len(request))), nil
}

// warm has a contestant serve some plain requests, so that its code and its pools are in memory.
func (m *measurement) warm(r *running) {
	c := caller{address: r.address}
	defer c.close()
	request := chatRequest(m.place.key, "m", nil)
	for range 200 {
		_ = c.ask(request)
	}
}

// failure is the first failure of a streamSet.
func (c *streamSet) failure() error {
	if err := c.first.Load(); err != nil {
		return *err
	}
	return errors.New("no reason is known")
}

// nodeMemory returns the memory of each node.
func nodeMemory(r *running) (all []float64, err error) {
	for _, n := range r.nodes {
		memory, err := child.ResidentMemory(n.pids...)
		if err != nil {
			return nil, err
		}
		all = append(all, memory.Own)
	}
	return all, nil
}

// held divides the memory by the number of what is held, less a number of bytes each.
func held(r *running, count int, before, after []float64, less float64) (all []Held) {
	for i, n := range r.nodes {
		if i < len(after) {
			all = append(all, Held{r.name, n.name, count, (after[i]-before[i])/float64(max(1, count)) - less})
		}
	}
	return all
}
