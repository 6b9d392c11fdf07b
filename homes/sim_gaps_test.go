package homes_test

import (
	"slices"
	"testing"
	"time"

	"colonnade/internal/testkit"
)

// gaps measures for how long no process may grant on an engine that has a document.
type gaps struct {
	since   map[string]time.Duration // by engine, when it was last granted on
	longest time.Duration
}

// measureGaps looks every few milliseconds, until the end of the history.
func (s *simulation) measureGaps(g *gaps) {
	for url := range s.store.fleet {
		if slices.ContainsFunc(s.processes, func(p *process) bool { return !p.stopped && p.mayGrant(url) }) {
			g.since[url] = s.now
		}
		g.longest = max(g.longest, s.now-g.since[url])
	}
	s.after(5*time.Millisecond, func() { s.measureGaps(g) })
}

// TestGaps checks for how long no server may grant on an engine after one fault.
func TestGaps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		most  time.Duration
		begin func(s *simulation, p *process)
	}{
		{"join", time.Second, func(s *simulation, _ *process) { s.join() }},
		{"drain", time.Second, func(_ *simulation, p *process) { p.drain() }},
		{"killed and started again", 1500 * time.Millisecond, func(s *simulation, p *process) {
			p.kill()
			s.after(200*time.Millisecond, func() { s.startAgain(p) })
		}},
		{"killed for good", 6500 * time.Millisecond, func(_ *simulation, p *process) { p.kill() }},
		{"stopped", 17 * time.Second, func(s *simulation, p *process) { s.stopFor(p, time.Minute, false) }},
		{"cut from the store", 2 * time.Second, func(s *simulation, p *process) { s.cutFromStore(p.host, time.Minute) }},
		{"store away", 0, func(s *simulation, _ *process) { s.storeAway(time.Minute) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var worst time.Duration
			defer func() { t.Logf("no server may grant for at most %v", worst) }()
			for seed := range uint64(testkit.AtScale(8, 100)) {
				s := newSimulation(seed, nothing)
				s.servers = 3
				g := gaps{since: map[string]time.Duration{}}
				s.beginHistory()
				for url := range s.store.fleet {
					g.since[url] = s.now
				}
				s.measureGaps(&g)
				c.begin(s, s.processes[0])
				s.runUntil(s.now + 40*time.Second)
				if len(s.problems) > 0 {
					t.Fatalf("history %d: %v", seed, s.problems)
				}
				worst = max(worst, g.longest)
				if g.longest > c.most+10*time.Millisecond {
					t.Errorf("history %d: no server may grant for %v, want at most %v", seed, g.longest, c.most)
				}
			}
		})
	}
}
