package balance

import (
	"cmp"
	"slices"
	"time"
)

// Scan chooses as the policies are meant, by a look at each endpoint: the model of what Balancer does without.
type Scan struct {
	*Balancer
	credits []int // by index
	open    []int // of the last choice by weights
	chosen  int
}

// NewScan returns the model of a balancer's choices.
func NewScan(b *Balancer) *Scan { return &Scan{Balancer: b} }

// Choose is Balancer.Choose, for the policies that have to find the best of all endpoints.
func (s *Scan) Choose(now Instant, r *Request, barred []bool) Choice {
	now = max(now, s.clock)
	switch s.config.Policy {
	case RoundRobin:
		return s.turn(barred)
	case WeightedRoundRobin:
		return s.weighted(barred)
	case LeastLatency:
		return s.fastest(now, r, barred)
	case Score:
		return s.score(now, r, barred)
	case AdapterAffinity:
		return Choice{At: s.fewest(barred), Prefers: None} // of adapters that no endpoint has; see GoodAdapterChoice
	}
	return s.leastLoaded(barred)
}

func (s *Scan) turn(barred []bool) Choice {
	for i := range s.endpoints {
		if at := s.from(i); s.Balancer.open(at, barred) {
			return Choice{At: at, Prefers: None, Why: Turn}
		}
	}
	return Choice{At: None, Prefers: None}
}

func (s *Scan) leastLoaded(barred []bool) Choice {
	best := None
	for i := range s.endpoints {
		at := s.from(i)
		if s.Balancer.open(at, barred) && (best == None || s.endpoints[at].lessLoaded(&s.endpoints[best])) {
			best = at
		}
	}
	return Choice{At: best, Prefers: None, Why: Load}
}

func (s *Scan) fewest(barred []bool) int {
	best := None
	for i := range s.endpoints {
		at := s.from(i)
		if s.Balancer.open(at, barred) && (best == None || s.fewerAdapters(at, best)) {
			best = at
		}
	}
	return best
}

func (s *Scan) weighted(barred []bool) Choice {
	best, most := None, 0
	s.open = s.open[:0]
	for at := range s.endpoints {
		if !s.Balancer.open(at, barred) {
			continue
		}
		s.open = append(s.open, at)
		if e := &s.endpoints[at]; best == None || s.credits[at]+e.Weight > most {
			best, most = at, s.credits[at]+e.Weight
		}
	}
	s.chosen = best
	return Choice{At: best, Prefers: None, Why: Turn}
}

// Granted is for smooth weighted round robin.
func (s *Scan) Granted(at int) {
	if len(s.open) == 0 || at != s.chosen {
		return
	}
	sum := 0
	for _, i := range s.open {
		e := &s.endpoints[i]
		s.credits[i] += e.Weight
		sum += e.Weight
	}
	s.credits[at] -= sum
	s.open = s.open[:0]
}

// Keep keeps the credits of endpoints that were there before, when others replace them.
func (s *Scan) Keep(before, list []Endpoint) {
	known := map[string]int{}
	for at, e := range before {
		known[e.ID] = s.credits[at]
	}
	s.credits = make([]int, len(list))
	for at, e := range list {
		s.credits[at] = known[e.ID]
	}
}

// Expected is how soon the answer of an endpoint to a prompt of so many bytes is expected to begin.
func (s *Scan) Expected(now Instant, input, at int) time.Duration {
	return time.Duration(s.latency(now, classOf(input), at))
}

// latency is written as the documentation has it.
func (s *Scan) latency(now Instant, class, at int) float64 {
	l := &s.latencies[class][at]
	return l.mean / (1 + float64(max(now-l.at, 0))/latencyDecay)
}

func (s *Scan) fastest(now Instant, r *Request, barred []bool) Choice {
	best, least := None, 0.0
	for i := range s.endpoints {
		at := s.from(i)
		if !s.Balancer.open(at, barred) {
			continue
		}
		e := &s.endpoints[at]
		cost := (s.latency(now, r.class(), at) + float64(time.Millisecond)) * float64(e.Load+1) / float64(e.size())
		if best == None || cost < least {
			best, least = at, cost
		}
	}
	return Choice{At: best, Prefers: None, Why: Latency}
}

func (s *Scan) score(now Instant, r *Request, barred []bool) Choice {
	w, class, least := &s.config.Weights, r.class(), 0.0
	for at := range s.endpoints {
		if latency := s.latency(now, class, at); latency > 0 && (least == 0 || latency < least) && s.Balancer.open(at, barred) {
			least = latency
		}
	}
	best, most := None, 0.0
	for i := range s.endpoints {
		at := s.from(i)
		if !s.Balancer.open(at, barred) {
			continue
		}
		e := &s.endpoints[at]
		score := w.Load * max(0, 1-float64(e.Load+1)/float64(e.Slots+1))
		if latency := s.latency(now, class, at); latency > 0 {
			score += w.Latency * least / latency
		} else {
			score += w.Latency
		}
		if depth, _ := s.longest(now, r.Blocks, 0, func(_ *Balancer, other int) bool { return other == at }); depth > 0 {
			score += w.Prefix * float64(bytesOf(depth)) / float64(bytesOf(len(r.Blocks)))
		}
		if best == None || score > most {
			best, most = at, score
		}
	}
	return Choice{At: best, Prefers: None, Why: Scored}
}

// GoodAdapterChoice reports whether a choice is one that AdapterAffinity may make: of the endpoints that have the adapter in memory and room for
// it, the best; else one that names it; else the one with the fewest adapters. It prefers the best of the full ones that would be better.
func (s *Scan) GoodAdapterChoice(r *Request, barred []bool, c Choice) bool {
	var open, full []*place
	for at := range s.endpoints {
		p := s.endpoints[at].adapters.places[r.Adapter]
		switch {
		case p == nil || p.pending >= max(s.config.AdapterPending, 1):
		case s.Balancer.open(at, barred):
			open = append(open, p)
		case s.endpoints[at].Up && (barred == nil || !barred[at]):
			full = append(full, p)
		}
	}
	best := false // an open one has it in memory
	for _, p := range open {
		best = best || p.loaded
	}
	switch {
	case len(open) > 0 && (c.Why != Adapter || !s.amongBest(open, c.At)), len(open) == 0 && c.At != s.fewest(barred):
		return false
	case c.Prefers != None:
		return !best && s.amongBest(full, c.Prefers)
	case len(open) > 0:
		full = slices.DeleteFunc(full, func(p *place) bool { return !p.loaded })
	}
	return best || len(full) == 0
}

// amongBest reports whether an endpoint is one of the places, and none that has the adapter in memory is better: it has more requests for it
// pending, or had one more recently, or fewer adapters, or less load.
func (s *Scan) amongBest(places []*place, at int) bool {
	i := slices.IndexFunc(places, func(p *place) bool { return p.of.at == at })
	return i >= 0 && !slices.ContainsFunc(places, func(p *place) bool {
		q := places[i]
		order := cmp.Or(cmp.Compare(p.pending, q.pending), cmp.Compare(p.used, q.used))
		return p.loaded && (!q.loaded || order > 0 || order == 0 && s.fewerAdapters(p.of.at, at))
	})
}
