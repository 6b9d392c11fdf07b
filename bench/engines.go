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

// engines are the simulated engines behind one gateway, and what they saw.
type engines struct {
	all []*engine

	mu       sync.Mutex // guards the field below
	observed []observedJob
}

// engine is one of them. It may be lost and come back, at the same address.
type engine struct {
	sim     *simengine.Engine
	address string
	slots   int
	cancel  context.CancelFunc // nil while it is lost
	ended   chan error
}

// observedJob is one request as an engine saw it.
type observedJob struct {
	id     uint64
	engine int
	job    simengine.Job
}

// tag begins every prompt, so that a request can be told at the engine. Gateways pass prompts on as they are.
const (
	promptTag = "bench-"
	wideTag   = "wide:" // before the tag, with how many bytes each token of the answer is to have
)

// maxTokens is more than any request asks for.
const maxTokens = 1 << 14

// prompt is what a request says: a tag and words.
func prompt(id uint64, rest string) string { return promptTag + strconv.FormatUint(id, 10) + rest }

// idOf finds the tag in a prompt; 0 is none of ours.
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

// stop cuts everything the engine has in hand and stops listening, as when its machine dies.
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

func (es *engines) setTiming(p timing) {
	for _, e := range es.all {
		e.sim.SetPace(p.ttft, p.itl)
	}
}

func (es *engines) observe(engine int, j simengine.Job) {
	id := idOf(j.Prompt)
	j.Prompt = "" // it may be long, and is not needed any more
	es.mu.Lock()
	defer es.mu.Unlock()
	es.observed = append(es.observed, observedJob{id, engine, j})
}

// inFlight is what runs and waits in the engines now.
func (es *engines) inFlight() int {
	n := 0
	for _, e := range es.all {
		st := e.sim.Stats()
		n += st.Running + st.Waiting
	}
	return n
}

// takeJobs returns what was seen since the last call, with moments that count from began.
func (es *engines) takeJobs(began time.Time) []job {
	es.mu.Lock()
	all := es.observed
	es.observed = nil
	es.mu.Unlock()
	jobs := make([]job, 0, len(all))
	for _, s := range all {
		j := job{id: s.id, engine: s.engine, arrived: s.job.Arrived.Sub(began), tokens: s.job.Tokens,
			input: s.job.Input, served: s.job.Served}
		if !s.job.Began.IsZero() {
			j.held = interval{s.job.Began.Sub(began), s.job.Ended.Sub(began)}
		}
		jobs = append(jobs, j)
	}
	return jobs
}
