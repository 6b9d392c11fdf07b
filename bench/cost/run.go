package cost

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"colonnade/bench/child"
)

// Options say what to run.
type Options struct {
	Size      Size
	Scenarios []string // names; empty: all
	Programs  string   // directory of entry, colo and colonnade
	Source    string   // directory of the main module, for its Go benchmarks; empty: none are run
	Beside    string   // the same of another version, whose nodes become contestants too; empty: none
	Dir       string   // scratch directory, made and removed by the caller

	// Progress is called whenever something begins. It may be nil.
	Progress func(Progress)
}

// Progress is the progress of a run.
type Progress struct {
	Scenario, Contestant, Doing string
	Done                        float64       // share of the whole run, 0 to 1
	Left                        time.Duration // until the end of the run, estimated
}

// Names of the scenarios.
const (
	PlainScenario   = "plain"
	SpacedScenario  = "spaced"
	ChunkScenario   = "chunk"
	MessageScenario = "message"
	OpenScenario    = "open"
	WaitingScenario = "waiting"
	ManyScenario    = "many"
	TracesScenario  = "traces"
	StartScenario   = "start"
	ShipScenario    = "ship"

	FunctionScenario = "functions"
)

// Scenarios returns the names of all scenarios in their order.
func Scenarios() []string {
	return []string{PlainScenario, SpacedScenario, ChunkScenario, MessageScenario, TracesScenario, OpenScenario, WaitingScenario, ManyScenario, StartScenario, ShipScenario, FunctionScenario}
}

// Names of contestants that others are compared with.
const (
	ChainName  = "bare chain"
	BareName   = "bare proxy"
	NginxName  = "nginx"
	RelayName  = "bare relays"
	DirectName = "no gateway"

	OtherVersion = ", other version" // ends the names of the contestants of [Options.Beside]
)

// measurement is a run while it runs.
type measurement struct {
	Options
	size        Size
	place       *place
	contestants []contestant // that serve requests
	rate        float64      // of the scenario with a fixed rate
	result      *Result

	began       time.Time
	steps, done int // steps of the run, and how many are done
}

// Run measures. When ctx ends, it ends everything that it has started and returns ctx's error.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	m := &measurement{Options: o, size: o.Size, result: &Result{}, began: time.Now()}
	m.place = &place{dir: o.Dir, programs: o.Programs, key: newKey()}
	if m.result.Programs, err = m.place.sizes(); err != nil {
		return nil, err
	}
	engine, addresses, err := startRole("engine", enginePorts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopEngine(engine)) }()
	m.place.engines = addresses
	m.assemble(ctx)
	m.steps = m.countSteps()
	for _, part := range []func(context.Context) error{m.runTurns, m.runTraces, m.runOpen, m.runWaiting, m.runMany, m.runStart, m.runShip, m.runFunctions} {
		if err := part(ctx); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return m.result, nil
}

func stopEngine(p *child.Process) error { return p.Stop(os.Kill, patience) }

// assemble decides which contestants there are.
func (m *measurement) assemble(ctx context.Context) {
	m.contestants = []contestant{fleetContestant(), serveContestant(),
		bareChain(ChainName, "Two bare fasthttp proxies, one behind the other, each a process that forwards and does nothing else: what two hops in fasthttp cost at least.", "proxy", 2),
		bareChain(BareName, "One of them: what one hop costs at least.", "proxy", 1),
	}
	if m.Beside != "" {
		for _, c := range []contestant{fleetContestant(), serveContestant()} {
			c.Name, c.start = c.Name+OtherVersion, elsewhere(c.start, func(p *place) { p.programs = m.Beside })
			c.About = "The same, of the programs in " + m.Beside + "."
			m.contestants = append(m.contestants, c)
		}
	}
	for _, find := range []func(context.Context) (contestant, error){nginx, haproxy} {
		c, err := find(ctx)
		if err != nil {
			m.result.LeftOut = append(m.result.LeftOut, err.Error())
			continue
		}
		m.contestants = append(m.contestants, c)
	}
	for i := range m.contestants {
		m.result.Contestants = append(m.result.Contestants, m.contestants[i].Contestant)
	}
}

func turnScenarios() []string {
	return []string{PlainScenario, SpacedScenario, ChunkScenario, MessageScenario}
}

func (m *measurement) wants(scenario string) bool {
	return len(m.Scenarios) == 0 || slices.Contains(m.Scenarios, scenario)
}

// step reports what begins.
func (m *measurement) step(scenario, contestant, doing string) {
	if m.Progress == nil {
		return
	}
	share := min(1, float64(m.done)/float64(max(1, m.steps)))
	p := Progress{Scenario: scenario, Contestant: contestant, Doing: doing, Done: share}
	if share > 0.02 {
		p.Left = time.Duration(float64(time.Since(m.began)) * (1 - share) / share)
	}
	m.done++
	m.Progress(p)
}

// countSteps returns how often step will be called, about.
func (m *measurement) countSteps() (n int) {
	each := map[string]int{
		PlainScenario: len(m.contestants) * (m.size.Rounds + 1), SpacedScenario: len(m.contestants) * (m.size.Rounds + 1),
		ChunkScenario: len(m.contestants) * (m.size.Rounds + 1), MessageScenario: 3 * (m.size.Rounds + 1), TracesScenario: 2 * (m.size.TraceRounds + 1),
		OpenScenario: len(m.contestants), WaitingScenario: 2, ManyScenario: len(m.contestants) + 1, StartScenario: m.size.Starts,
		ShipScenario: m.size.ShipRounds * len(shipSinks()), FunctionScenario: len(functions()),
	}
	for name, steps := range each {
		if m.wants(name) {
			n += steps
		}
	}
	return n
}

// launchAll starts contestants. stop ends those that were started.
func (m *measurement) launchAll(ctx context.Context, all []contestant) (running []*running, stop func() error, err error) {
	stop = func() error {
		var errs []error
		for _, r := range running {
			errs = append(errs, r.stop())
		}
		return errors.Join(errs...)
	}
	for i := range all {
		r, err := m.place.launch(ctx, &all[i])
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		running = append(running, r)
	}
	return running, stop, nil
}

// runTurns runs the scenarios in which contestants take turns.
func (m *measurement) runTurns(ctx context.Context) (err error) {
	if !slices.ContainsFunc(turnScenarios(), m.wants) {
		return nil
	}
	relays := bareChain(RelayName, "Two bare relays of TCP, which know no messages.", "relay", 2)
	all, stop, err := m.launchAll(ctx, append(slices.Clone(m.contestants), relays))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	forRequests := all[:len(m.contestants)]
	for _, scenario := range turnScenarios() {
		if !m.wants(scenario) {
			continue
		}
		switch scenario {
		case PlainScenario:
			m.result.Plain, err = m.rounds(ctx, scenario, m.size.Rounds, forRequests, m.saturate)
		case SpacedScenario:
			if err = m.setRate(ctx, forRequests); err == nil {
				m.result.Spaced, err = m.rounds(ctx, scenario, m.size.Rounds, forRequests, m.space)
			}
		case ChunkScenario:
			m.result.Chunks, err = m.rounds(ctx, scenario, m.size.Rounds, forRequests, m.stream)
		case MessageScenario:
			m.result.Messages, err = m.rounds(ctx, scenario, m.size.Rounds, m.forMessages(all), m.talk)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forMessages are those that carry sessions.
func (m *measurement) forMessages(all []*running) (those []*running) {
	for i, r := range all {
		if i >= len(m.contestants) || m.contestants[i].realtime {
			those = append(those, r)
		}
	}
	return those
}

// setRate sets the rate of the scenario with a fixed rate by what the chain carries.
func (m *measurement) setRate(ctx context.Context, all []*running) error {
	chain, measured := Of(m.result.Plain, ChainName)
	if !measured {
		i := slices.IndexFunc(all, func(r *running) bool { return r.name == ChainName })
		round, err := oneTurn(ctx, all[i], m.saturate)
		if err != nil {
			return err
		}
		chain.Rounds = []Round{round}
	}
	m.rate = m.size.Share * chain.Median(Rate)
	m.result.Rate = m.rate
	return nil
}

// eachAlone measures contestants, each started for this alone.
func (m *measurement) eachAlone(ctx context.Context, scenario string, all []contestant, measure func(*running) error) error {
	for i := range all {
		m.step(scenario, all[i].Name, "measuring")
		r, err := m.place.launch(ctx, &all[i])
		if err != nil {
			return err
		}
		if err := errors.Join(measure(r), r.stop()); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (m *measurement) runOpen(ctx context.Context) error {
	if !m.wants(OpenScenario) {
		return nil
	}
	return m.eachAlone(ctx, OpenScenario, m.contestants, func(r *running) error {
		held, err := m.openMemory(ctx, r)
		m.result.Open = append(m.result.Open, held...)
		return err
	})
}

func (m *measurement) runWaiting(ctx context.Context) error {
	if !m.wants(WaitingScenario) {
		return nil
	}
	queueing := slices.DeleteFunc(slices.Clone(m.contestants), func(c contestant) bool { return !c.realtime })
	return m.eachAlone(ctx, WaitingScenario, queueing, func(r *running) error {
		held, err := m.waitingMemory(ctx, r)
		m.result.Waiting = append(m.result.Waiting, held...)
		return err
	})
}

// reservedFiles are open files of a node that are no connections of streams.
const reservedFiles = 2000

// manyStreams is how many streams are opened through a contestant. A process needs two files for each, but one where the other side of it is a link.
func (m *measurement) manyStreams(contestant string) int {
	files := 2
	if contestant == FleetName || contestant == DirectName {
		files = 1
	}
	return min(m.size.Many, (openFiles()-reservedFiles)/files)
}

func (m *measurement) runMany(ctx context.Context) error {
	if !m.wants(ManyScenario) {
		return nil
	}
	direct := contestant{Contestant: Contestant{Name: DirectName}, start: func(_ context.Context, p *place, _ string) (*running, error) {
		return &running{address: p.engines[0]}, nil
	}}
	return m.eachAlone(ctx, ManyScenario, append([]contestant{direct}, m.contestants...), func(r *running) error {
		many, err := m.measureMany(ctx, r, m.manyStreams(r.name))
		m.result.Many = append(m.result.Many, many)
		return err
	})
}

func (m *measurement) runStart(ctx context.Context) (err error) {
	if !m.wants(StartScenario) {
		return nil
	}
	m.result.Start, err = m.starts(ctx)
	return err
}
