package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"colonnade/fleet"
	"colonnade/problems"
	"colonnade/reasons"
)

// workersAtOnce is how many workers are asked for live figures at a time.
const workersAtOnce = 64

// workersState is what status -workers shows, and prints with -json.
type workersState struct {
	Time     time.Time          `json:"time"`
	Etcd     string             `json:"etcd,omitempty"` // URLs; empty if nodes were given by address
	Machines []machineState     `json:"machines"`
	Problems []problems.Problem `json:"problems"`
}

// machineState is a machine with workers, as their documents say it, with live figures where a worker can be asked.
type machineState struct {
	Machine string        `json:"machine"`
	Driver  string        `json:"driver,omitempty"`
	NoGPUs  string        `json:"no_gpus,omitempty"` // why nothing is known of GPUs
	GPUs    []gpuState    `json:"gpus"`
	Workers []workerState `json:"workers"`
}

// gpuState is a GPU of a machine.
type gpuState struct {
	fleet.WorkerGPU

	Engines []string    `json:"engines"` // that use it: colo/endpoint
	Live    *gpuFigures `json:"live,omitempty"`
}

// gpuFigures are figures of a GPU at present, by the names of the worker's page. One that the GPU does not have is nil.
type gpuFigures struct {
	UUID         string   `json:"uuid"`
	MemoryTotal  uint64   `json:"memory_total,omitempty"` // bytes
	MemoryUsed   uint64   `json:"memory_used"`            // bytes
	Utilization  *float64 `json:"utilization,omitempty"`  // percent
	Power        *float64 `json:"power,omitempty"`        // W
	PowerLimit   *float64 `json:"power_limit,omitempty"`  // W
	Temperature  *float64 `json:"temperature,omitempty"`  // °C
	ClockReasons uint64   `json:"clock_reasons,omitempty"`
	Lost         string   `json:"lost,omitempty"` // why it does not answer
}

// workerState is a worker. The GPUs of its document stand at its machine.
type workerState struct {
	Node string `json:"node"`
	fleet.Worker

	Error string `json:"error,omitempty"` // why it could not be asked for live figures
}

// workerPage is the page /debug/worker, as far as it is used here.
type workerPage struct {
	Node   string       `json:"node"`
	Worker fleet.Worker `json:"worker"`
	GPUs   struct {
		Reading struct {
			GPUs []gpuFigures `json:"gpus"`
		} `json:"reading"`
	} `json:"gpus"`
}

// pollWorkers returns the machines with workers that a query includes.
func (p *poller) pollWorkers(ctx context.Context, q *poolQuery) (*workersState, error) {
	if err := p.list(ctx); err != nil {
		return nil, err
	}
	l := &problems.List{}
	workers := p.documents.table.Workers()
	if p.client == nil {
		workers = p.workersAt(ctx, l)
	} else if p.listErr != "" {
		l.Errorf(reasons.StoreSilent, "", "%s", p.listErr)
	}
	l.Add(problems.OfWorkers(fleet.NewTable(fleet.Contents{Workers: slices.Clone(workers)}), q.colo, time.Now())...)
	workers = slices.DeleteFunc(slices.Clone(workers), func(w *fleet.Worker) bool { return !q.includesWorker(w) })
	live := p.askWorkers(ctx, workers)
	return &workersState{Time: time.Now(), Etcd: p.etcd, Machines: machinesOf(workers, live), Problems: l.All()}, ctx.Err()
}

func (q *poolQuery) includesWorker(w *fleet.Worker) bool {
	return (q.colo == "" || q.colo == w.Colo) && (q.pool == "" || q.pool == w.Engine.Pool)
}

// workersAt returns the workers that the nodes at given addresses know of, or that are there themselves.
func (p *poller) workersAt(ctx context.Context, l *problems.List) (all []*fleet.Worker) {
	for _, n := range p.documents.nodes {
		found, err := p.workersOf(ctx, n.Admin)
		if err != nil {
			l.Errorf(reasons.NodeUnreachable, "", "%s: cannot be asked: %v", n.Admin, err)
		}
		for _, w := range found {
			if !slices.ContainsFunc(all, func(known *fleet.Worker) bool { return known.Node == w.Node }) {
				all = append(all, w)
			}
		}
	}
	return all
}

// workersOf returns the workers that one address knows of. A worker has no page of the fleet.
func (p *poller) workersOf(ctx context.Context, admin string) (all []*fleet.Worker, err error) {
	var page workerPage
	if p.reader.readJSON(ctx, admin, "/debug/worker", &page) == nil && page.Node != "" {
		w := page.Worker
		w.Node, w.Admin = page.Node, admin
		return []*fleet.Worker{&w}, nil
	}
	var table struct {
		Documents map[string]json.RawMessage `json:"documents"`
	}
	if err := p.reader.readJSON(ctx, admin, "/debug/fleet", &table); err != nil {
		return nil, err
	}
	for key, value := range table.Documents {
		name, isWorker := strings.CutPrefix(key, fleet.KindWorker.Key(""))
		if !isWorker {
			continue
		}
		w := &fleet.Worker{}
		if err := json.Unmarshal(value, w); err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", key, err)
		}
		w.Node = name
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *fleet.Worker) int { return strings.Compare(a.Node, b.Node) })
	return all, nil
}

// liveWorker is what a worker has answered.
type liveWorker struct {
	gpus []gpuFigures
	err  string
}

// askWorkers asks workers for live figures, and returns the answers in their order.
func (p *poller) askWorkers(ctx context.Context, workers []*fleet.Worker) []liveWorker {
	answers := make([]liveWorker, len(workers))
	room := make(chan struct{}, workersAtOnce)
	var asked sync.WaitGroup
	for i, w := range workers {
		room <- struct{}{}
		asked.Go(func() {
			defer func() { <-room }()
			answers[i] = p.askWorker(ctx, w)
		})
	}
	asked.Wait()
	return answers
}

// askWorker asks one worker. An address such as 127.0.0.1:9480 means another one on each machine, so the answer must be of the same process.
func (p *poller) askWorker(ctx context.Context, w *fleet.Worker) liveWorker {
	if w.Admin == "" {
		return liveWorker{err: "it has no admin listener"}
	}
	var page workerPage
	err := p.reader.readJSON(ctx, w.Admin, "/debug/worker", &page)
	switch {
	case err != nil:
		return liveWorker{err: fmt.Sprintf("cannot be asked at %s: %v", w.Admin, err)}
	case page.Node != w.Node || page.Worker.Boot != w.Boot:
		return liveWorker{err: fmt.Sprintf("another worker answers at %s; %s", w.Admin, addressHint(w.Admin))}
	}
	return liveWorker{gpus: page.GPUs.Reading.GPUs}
}

// machinesOf groups workers by machine, sorted by name.
func machinesOf(workers []*fleet.Worker, live []liveWorker) []machineState {
	machines := []machineState{}
	for i, w := range workers {
		name := cmp.Or(w.Machine, w.Node)
		at := slices.IndexFunc(machines, func(m machineState) bool { return m.Machine == name })
		if at < 0 {
			at, machines = len(machines), append(machines, machineState{Machine: name, GPUs: []gpuState{}})
		}
		machines[at].add(w, live[i])
	}
	for i := range machines {
		m := &machines[i]
		slices.SortFunc(m.GPUs, func(a, b gpuState) int { return cmp.Or(cmp.Compare(a.Index, b.Index), strings.Compare(a.UUID, b.UUID)) })
		for j := range m.GPUs {
			m.GPUs[j].Engines = m.users(&m.GPUs[j])
		}
	}
	slices.SortFunc(machines, func(a, b machineState) int { return strings.Compare(a.Machine, b.Machine) })
	return machines
}

// add adds a worker, and what it reports about the machine.
func (m *machineState) add(w *fleet.Worker, live liveWorker) {
	m.Driver, m.NoGPUs = cmp.Or(m.Driver, w.Driver), cmp.Or(m.NoGPUs, w.NoGPUs)
	for _, g := range w.GPUs {
		at := slices.IndexFunc(m.GPUs, func(known gpuState) bool { return known.UUID == g.UUID })
		if at < 0 {
			at, m.GPUs = len(m.GPUs), append(m.GPUs, gpuState{WorkerGPU: g})
		}
		m.GPUs[at].Problem = cmp.Or(m.GPUs[at].Problem, g.Problem)
		for i := range live.gpus {
			if live.gpus[i].UUID == g.UUID && m.GPUs[at].Live == nil {
				m.GPUs[at].Live = &live.gpus[i]
			}
		}
	}
	if len(m.GPUs) > 0 {
		m.NoGPUs = ""
	}
	s := workerState{Node: w.Node, Worker: *w, Error: live.err}
	s.Driver, s.NoGPUs, s.GPUs = "", "", nil
	m.Workers = append(m.Workers, s)
}

// users returns the engines that use a GPU.
func (m *machineState) users(g *gpuState) []string {
	names := []string{}
	for i := range m.Workers {
		w := &m.Workers[i]
		if slices.ContainsFunc(w.Engine.GPUs, g.Has) {
			names = append(names, w.Colo+"/"+w.Engine.Endpoint)
		}
	}
	return names
}

// isWell reports whether every engine of a machine serves, and no GPU has a problem.
func (m *machineState) isWell() bool {
	return !slices.ContainsFunc(m.GPUs, func(g gpuState) bool { return g.isBroken() }) &&
		!slices.ContainsFunc(m.Workers, func(w workerState) bool { return w.Engine.State != fleet.WorkerServing })
}

func (g *gpuState) isBroken() bool { return g.Problem != "" || g.Live != nil && g.Live.Lost != "" }
