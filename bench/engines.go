package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"colonnade/internal/simengine"
)

// engines are the simulated engines behind one gateway, and the requests that they saw.
type engines struct {
	all []*engine

	mu       sync.Mutex // guards the field below
	observed []observedJob
}

// engine is one of them. It may be stopped, and started again at the same address.
type engine struct {
	sim     *simengine.Engine
	address string
	slots   int
	cancel  context.CancelFunc // nil while it is stopped
	ended   chan error
}

// observedJob is one request as an engine saw it.
type observedJob struct {
	id     uint64
	engine int
	job    simengine.Job
}

// Prompts begin with a tag, which gateways pass on, so that a request is known at the engine. Before it may stand how many
// bytes each token of the answer is to have.
const (
	promptTag = "bench-"
	wideTag   = "wide:"
)

// maxTokens is more than any request asks for.
const maxTokens = 1 << 14

// prompt is how the prompt of a request begins.
func prompt(q *request) string {
	tag := promptTag + strconv.FormatUint(q.id, 10)
	if q.tokenBytes > 0 {
		tag = wideTag + strconv.Itoa(q.tokenBytes) + " " + tag
	}
	return tag
}

// idOf returns the id in a prompt; 0 means that the prompt is none of ours.
func idOf(prompt string) uint64 {
	if strings.HasPrefix(prompt, wideTag) {
		_, prompt, _ = strings.Cut(prompt, " ")
	}
	s, ok := strings.CutPrefix(prompt, promptTag)
	if !ok {
		return 0
	}
	s, _, _ = strings.Cut(s, " ")
	id, _ := strconv.ParseUint(s, 10, 64)
	return id
}

// startEngines starts an engine at each address.
func startEngines(addresses []string, slots int) (*engines, error) {
	es := &engines{}
	for i, address := range addresses {
		e := &engine{address: address, slots: slots}
		e.sim = simengine.New(simengine.Config{Slots: slots, Tokens: maxTokens,
			Watch: func(j simengine.Job) { es.observe(i, j) }})
		if err := e.start(); err != nil {
			return nil, errors.Join(err, es.close())
		}
		es.all = append(es.all, e)
	}
	return es, nil
}

func (e *engine) start() error {
	ln, err := net.Listen("tcp", e.address)
	if err != nil {
		return fmt.Errorf("cannot start a simulated engine: %w", err)
	}
	e.address = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel, e.ended = cancel, make(chan error, 1)
	go func() { e.ended <- simengine.Serve(ctx, ln, e.sim) }()
	return nil
}

// stop cuts all connections and stops listening, as when the engine's machine dies.
func (e *engine) stop() error {
	if e.cancel == nil {
		return nil
	}
	e.cancel()
	e.cancel = nil
	return <-e.ended
}

func (es *engines) close() error {
	var all []error
	for _, e := range es.all {
		all = append(all, e.stop())
		e.sim.Close()
	}
	return errors.Join(all...)
}

func (es *engines) setup() []Engine {
	var all []Engine
	for _, e := range es.all {
		all = append(all, Engine{URL: "http://" + e.address, Slots: e.slots})
	}
	return all
}

func (es *engines) slots() int {
	n := 0
	for _, e := range es.all {
		n += e.slots
	}
	return n
}

func (es *engines) setTiming(t timing) {
	for _, e := range es.all {
		e.sim.SetPace(t.ttft, t.itl)
	}
}

func (es *engines) observe(engine int, j simengine.Job) {
	id := idOf(j.Prompt)
	j.Prompt = "" // it may be long
	es.mu.Lock()
	defer es.mu.Unlock()
	es.observed = append(es.observed, observedJob{id, engine, j})
}

// inFlight is the number of requests that run and wait in the engines.
func (es *engines) inFlight() int {
	n := 0
	for _, e := range es.all {
		st := e.sim.Stats()
		n += st.Running + st.Waiting
	}
	return n
}

// takeJobs returns what was observed since the last call, with moments that count from began.
func (es *engines) takeJobs(began time.Time) []job {
	es.mu.Lock()
	all := es.observed
	es.observed = nil
	es.mu.Unlock()
	jobs := make([]job, 0, len(all))
	for _, o := range all {
		j := job{id: o.id, engine: o.engine, arrived: o.job.Arrived.Sub(began), tokens: o.job.Tokens,
			input: o.job.Input, served: o.job.Served}
		if !o.job.Began.IsZero() {
			j.held = interval{o.job.Began.Sub(began), o.job.Ended.Sub(began)}
		}
		jobs = append(jobs, j)
	}
	return jobs
}
