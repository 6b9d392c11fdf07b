package keeper_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/fleet"
	"colonnade/homes"
	"colonnade/homes/keeper"
)

var (
	self    = homes.Process{Node: "ams-1", Boot: "a"}
	sibling = homes.Process{Node: "ams-2", Boot: "b"}
	third   = homes.Process{Node: "ams-3", Boot: "c"}
)

// model is the surroundings of one keeper: a store that shows each put at once, pools, and other processes that answer.
type model struct {
	t      *testing.T
	keeper *keeper.Keeper

	mu        sync.Mutex // guards the fields below
	grants    *homes.Grants
	mayGrant  bool
	drains    bool
	confirmed time.Time // zero = the store answers always
	held      map[string]int
	standIns  map[string]int // by pool
	returned  []string       // pools
	dead      []string       // keys
	forgotten int
	revision  int64
	puts      []put
	putError  error
	replaced  []replacement
	replacing error // of Replace
	answers   map[homes.Process]func(about string) (homes.Answer, error)
	asked     []keeper.Target
	warnings  int
}

type put struct {
	at         time.Time
	owns, held map[string]int
}

type replacement struct {
	at  time.Time
	old homes.Process
	new *homes.Record
}

// run runs a keeper in synthetic time while body runs.
func run(t *testing.T, ended []string, body func(*testing.T, *model)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &model{
			t: t, held: map[string]int{}, standIns: map[string]int{}, revision: 10,
			answers: map[homes.Process]func(string) (homes.Answer, error){},
		}
		m.keeper = keeper.New(m.config(ended))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.keeper.Run(ctx) }()
		defer func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		body(t, m)
	})
}

func (m *model) config(ended []string) keeper.Config {
	return keeper.Config{
		Self: self, Colo: "ams", Ended: ended, TTL: ttl, Logger: slog.New(warningCounter{slog.DiscardHandler, m}),
		SetGrants: func(g *homes.Grants) { m.do(func() { m.grants = g }) },
		MayGrant:  func() (may bool) { m.do(func() { may = m.mayGrant }); return may },
		Drains:    func() (drains bool) { m.do(func() { drains = m.drains }); return drains },
		Held:      func() (held map[string]int) { m.do(func() { held = maps.Clone(m.held) }); return held },
		Limits:    func() map[string]int { return nil },
		StandIns:  func(pool string) (n int) { m.do(func() { n = m.standIns[pool] }); return n },
		Return:    func(pool string) { m.do(func() { m.returned = append(m.returned, pool) }) },
		MarkDead:  func(keys ...string) { m.do(func() { m.dead = append(m.dead, keys...) }) },
		Confirmed: func() (at time.Time) {
			m.do(func() { at = m.confirmed })
			if at.IsZero() {
				at = time.Now()
			}
			return at
		},
		Put: m.put, Replace: m.replace, Forget: func() { m.do(func() { m.forgotten++ }) },
		Ask: m.ask, Refused: func(err error) bool { return errors.Is(err, errRefused) },
	}
}

func (m *model) do(step func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	step()
}

func (m *model) put(_ context.Context, _ int64, owns, held map[string]int) (revision int64, err error) {
	m.do(func() {
		m.puts = append(m.puts, put{time.Now(), maps.Clone(owns), maps.Clone(held)})
		m.revision++
		revision, err = m.revision, m.putError
	})
	if err != nil {
		return 0, err
	}
	m.keeper.Observe(homes.Change{Revision: revision, Put: []homes.Record{{Process: self, Revision: revision, Owns: owns, Held: held}}})
	return revision, nil
}

func (m *model) replace(_ context.Context, old homes.Record, next *homes.Record) (done bool, err error) {
	m.do(func() {
		m.replaced = append(m.replaced, replacement{time.Now(), old.Process, next})
		err = m.replacing
	})
	if err != nil {
		return false, err
	}
	if next == nil {
		m.observe(homes.Change{Deleted: []homes.Process{old.Process}})
	} else {
		m.observe(homes.Change{Put: []homes.Record{*next}})
	}
	return true, nil
}

func (m *model) ask(ctx context.Context, to keeper.Target, about string) (homes.Answer, error) {
	var answer func(string) (homes.Answer, error)
	m.do(func() {
		m.asked = append(m.asked, to)
		answer = m.answers[to.Process]
	})
	if answer == nil { // it is silent
		<-ctx.Done()
		return homes.Answer{}, ctx.Err()
	}
	return answer(about)
}

// answer makes a process answer.
func (m *model) answer(p homes.Process, a homes.Answer) {
	a.Boot = p.Boot
	m.do(func() { m.answers[p] = func(string) (homes.Answer, error) { return a, nil } })
}

// refuse makes the address of a process refuse connections.
func (m *model) refuse(p homes.Process) {
	m.do(func() {
		m.answers[p] = func(string) (homes.Answer, error) { return homes.Answer{}, errRefused }
	})
}

// observe shows the keeper a change of the records, at the next revision.
func (m *model) observe(c homes.Change) {
	m.do(func() {
		m.revision++
		c.Revision = m.revision
	})
	for i := range c.Put {
		c.Put[i].Revision = c.Revision
		if c.Put[i].Address == "" {
			c.Put[i].Address = c.Put[i].Node
		}
	}
	m.keeper.Observe(c)
}

// list shows the keeper a list of all records.
func (m *model) list(records ...homes.Record) { m.observe(homes.Change{Listed: true, Put: records}) }

// register registers the process, as a lease does.
func (m *model) register() {
	m.keeper.StopGrants()
	var revision int64
	m.do(func() {
		m.revision++
		revision = m.revision
	})
	m.keeper.Registered(revision)
	m.do(func() { m.mayGrant = true })
}

func server(p homes.Process) *fleet.Server {
	return &fleet.Server{
		Colo: "ams", Node: p.Node, Boot: p.Boot, Address: p.Node, State: fleet.StateActive,
		Protocol: fleet.ProtocolRange{Min: fleet.OldestProtocol, Max: fleet.Protocol},
	}
}

// table returns a table with a pool of one engine for each of these names.
func table(pools []string, servers ...*fleet.Server) *fleet.Table {
	c := fleet.Contents{Servers: servers}
	var endpoints []*fleet.Endpoint
	for _, name := range pools {
		c.Pools = append(c.Pools, &fleet.Pool{Name: name})
		endpoints = append(endpoints, &fleet.Endpoint{Colo: "ams", ID: name, URL: engine(name), Pool: name, Concurrency: 4})
	}
	c.Endpoints = fleet.NewEndpointIndex(endpoints)
	return fleet.NewTable(c)
}

func engine(pool string) string { return "http://" + pool }

// poolOf returns the name of a pool whose home is a process, of those of these servers.
func poolOf(home homes.Process, servers ...*fleet.Server) string {
	for _, name := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		if found, ok := homes.Home(name, servers); ok && found.Node == home.Node {
			return name
		}
	}
	panic("no pool has its home at " + home.Node)
}

// start applies a table, and registers the process, with these records of others.
func (m *model) start(t *fleet.Table, records ...homes.Record) {
	m.keeper.Apply(t)
	m.list(records...)
	m.register()
	synctest.Wait()
}

func (m *model) granted() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.grants.Engines))
}

// want fails the test unless the keeper may grant on exactly the engines of these pools.
func (m *model) want(when string, pools ...string) {
	m.t.Helper()
	synctest.Wait()
	var urls []string
	for _, pool := range pools {
		urls = append(urls, engine(pool))
	}
	slices.Sort(urls)
	if got := m.granted(); !slices.Equal(got, urls) {
		m.t.Errorf("%s: may grant on %v, want %v", when, got, urls)
	}
}

func (m *model) putsSince(at time.Time) []put {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.puts), func(p put) bool { return p.at.Before(at) })
}

func (m *model) replacements() []replacement {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.replaced)
}

// warningCounter counts warnings.
type warningCounter struct {
	slog.Handler
	model *model
}

func (warningCounter) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

func (w warningCounter) Handle(context.Context, slog.Record) error {
	w.model.do(func() { w.model.warnings++ })
	return nil
}
