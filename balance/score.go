package balance

// scoring is the search for the endpoint with the greatest score.
type scoring struct {
	*Balancer
	turn
	now    Instant
	class  int
	barred []bool
	blocks []uint64
	least  float64 // latency of those that are open; 0: none is known

	best  int
	score float64 // of the best
}

// scoreBound has upper bounds of the scores in a group at an instant, without the part of the prompt.
type scoreBound struct {
	measured   float64 // of endpoints with a latency, which grows as time passes, and with the least latency
	unmeasured float64 // of the others, which stays
	pace       float64 // 1 / least, rounded up; 0: no latency was known
	at         Instant
	changed    uint64 // ranks.changed of the group then; 0: nothing is known
}

// maxMatched is how many uses of the prompt's blocks are looked at before the groups. Where more endpoints have a block, one of them is soon
// found in the groups with the greatest bounds.
const maxMatched = 48

// chooseScore returns the endpoint that is open and has the greatest weighted sum of the share of the prompt in its cache, the share of
// its slots that are free, and the least latency relative to its own. Those with most of the prompt come first: what they reach, only few of the
// others can.
func (b *Balancer) chooseScore(now Instant, r *Request, barred []bool) Choice {
	s := scoring{Balancer: b, turn: b.turn(), now: b.notBefore(now), class: r.class(), barred: barred, best: None}
	if b.config.Weights.Latency > 0 {
		s.least = b.leastLatency(s.now, s.class, barred)
	}
	depth := 0
	if r != nil && len(r.Blocks) > 0 && b.config.Weights.Prefix > 0 {
		s.blocks = r.Blocks
		depth = s.scoreMatches()
	}
	further := s.prefix(depth)
	for k := range s.groups {
		s.most[k] = s.bound(s.group(k))
	}
	for {
		k := s.likeliest(further)
		if k == None {
			return Choice{At: s.best, Prefers: None, Why: Scored}
		}
		s.scoreGroup(s.group(k), depth)
		s.most[k] = -1
	}
}

// bound returns what no score of a group is above, without the part of the prompt.
func (s *scoring) bound(g int) float64 {
	bound := &s.scores[s.class][g]
	if bound.changed != s.ranks.changed[g] {
		return never
	}
	most := bound.measured
	if grown := s.least * bound.pace * decay(s.now-bound.at); grown > 1 {
		most *= grown
	}
	return max(most, bound.unmeasured)
}

// likeliest returns the place in turn of the group with the greatest bound, the first of several: what it reaches, few others can. It returns
// None if no group has an endpoint with a better score than the best, if each has as much of the prompt as adds this to its score.
func (s *scoring) likeliest(prefix float64) int {
	k, most := None, -1.0
	for i, bound := range s.most[:s.groups] {
		if bound > most {
			k, most = i, bound
		}
	}
	if k == None || s.best == None {
		return k
	}
	if most += prefix; most > s.score || most == s.score && (k == 0 || s.place(s.group(k)*groupSize) < s.place(s.best)) {
		return k
	}
	return None
}

// scoreGroup looks at the endpoints of a group. Those that were not looked at yet have at most so many blocks of the prompt.
func (s *scoring) scoreGroup(g, depth int) {
	bound := scoreBound{at: s.now, changed: s.ranks.changed[g]}
	prefix := s.prefix(depth)
	w, measured := &s.config.Weights, false
	byLatency := w.Latency * s.least
	for at := g * groupSize; at < min(g*groupSize+groupSize, s.n); at++ {
		if s.ranks.shares[at] == never {
			continue
		}
		most := w.Load * s.ranks.rooms[at]
		if l := &s.latencies[s.class][at]; w.Latency > 0 && l.mean > 0 {
			measured, most = true, (most+byLatency*l.inverse(s.now))*(1+rounding)
			if most > bound.measured {
				bound.measured = most
			}
		} else {
			most += w.Latency
			if most > bound.unmeasured {
				bound.unmeasured = most
			}
		}
		if s.best != None && most+prefix < s.score || s.barred != nil && s.barred[at] || depth > 0 && s.marks[at] == s.matches {
			continue
		}
		s.take(at, s.scoreOf(at)+s.prefix(s.depthOf(at, depth)))
	}
	if s.least > 0 {
		bound.pace = (1 + rounding) / s.least
	}
	if s.least > 0 || !measured { // else those with a latency are barred, and are worth more to others
		s.scores[s.class][g] = bound
	}
}

// take makes an endpoint the best, if it is. Of equals, the first in turn is.
func (s *scoring) take(at int, score float64) {
	if s.best == None || score > s.score || score == s.score && s.place(at) < s.place(s.best) {
		s.best, s.score = at, score
	}
}

// scoreOf returns the score of an open endpoint without the part of the prompt.
func (s *scoring) scoreOf(at int) float64 {
	w := &s.config.Weights
	score := w.Load * s.ranks.rooms[at]
	if w.Latency == 0 {
		return score
	}
	if l := &s.latencies[s.class][at]; l.mean > 0 {
		return score + w.Latency*s.least/l.value(s.now)
	}
	return score + w.Latency
}

// prefix returns what so many blocks of the prompt add to a score.
func (s *scoring) prefix(blocks int) float64 {
	if blocks == 0 {
		return 0
	}
	return s.config.Weights.Prefix * float64(bytesOf(blocks)) / float64(bytesOf(len(s.blocks)))
}

// leastLatency returns the least latency of the endpoints that are open, of those that are known; 0: there are none.
func (b *Balancer) leastLatency(now Instant, class int, barred []bool) float64 {
	least, bounds, first := never, b.lowest[class], b.fastest[class]
	for k := range bounds {
		g := k
		switch k { // the group that had it last time comes first, since few others have less
		case 0:
			g = first
		case first:
			g = 0
		}
		if bounds[g].atLeast(now, least, b.ranks.faster[g]) {
			continue
		}
		from, fastest, contender := g*groupSize, 0.0, (1-rounding)/least
		for at := from; at < min(from+groupSize, len(b.endpoints)); at++ {
			l := &b.latencies[class][at]
			if l.mean == 0 || b.ranks.shares[at] == never {
				continue
			}
			inverse := l.inverse(now)
			if inverse > fastest {
				fastest = inverse
			}
			if inverse > contender && (barred == nil || !barred[at]) {
				least, b.fastest[class] = min(least, l.value(now)), g
				contender = (1 - rounding) / least
			}
		}
		bounds[g] = latencyBound{measured: (1 - rounding) / fastest, unmeasured: never, at: now, changed: b.ranks.faster[g]}
	}
	if least == never {
		return 0
	}
	return least
}

// scoreMatches looks at the endpoints that have most of the prompt, as long as they are few. It returns how many blocks those have at most
// that it has not looked at. An endpoint that has a block has all before it.
func (s *scoring) scoreMatches() (rest int) {
	s.matches++
	if s.index.first(s.blocks[0]) == none {
		return 0
	}
	rest = s.depth(s.now, s.blocks, 0, func(*Balancer, int) bool { return true })
	left := maxMatched
	for low := rest; low > 0; {
		for i := s.index.first(s.blocks[low-1]); i != none; i = s.index.uses[i].next {
			if left--; left < 0 {
				return low
			}
			if at := s.index.uses[i].owner.at; s.fresh(s.now, i) && s.marks[at] != s.matches {
				s.marks[at] = s.matches
				if s.open(at, s.barred) {
					s.take(at, s.scoreOf(at)+s.prefix(low))
				}
			}
		}
		high := low - 1
		if low = 0; high > 0 && !s.unmarkedHolder(s.blocks[0], &left) {
			return 0 // as for most conversations that share no beginning
		}
		for low < high {
			middle := (low + high + 1) / 2
			if s.unmarkedHolder(s.blocks[middle-1], &left) {
				low = middle
			} else {
				high = middle - 1
			}
			if left < 0 {
				return high
			}
		}
	}
	return 0
}

// unmarkedHolder reports whether an endpoint has a block that was not looked at. It looks at no more than what is left of the uses.
func (s *scoring) unmarkedHolder(hash uint64, left *int) bool {
	for i := s.index.first(hash); i != none; i = s.index.uses[i].next {
		if *left--; *left < 0 {
			return true
		}
		if s.fresh(s.now, i) && s.marks[s.index.uses[i].owner.at] != s.matches {
			return true
		}
	}
	return false
}

// depthOf returns how many of the first blocks an endpoint has, of so many that it may have.
func (s *scoring) depthOf(at, most int) int {
	low, middle := 0, most // which most endpoints have, of those that come here
	for low < most {
		if i := s.index.find(s.blocks[middle-1], s.endpoints[at].learned); i != none && s.fresh(s.now, i) {
			low = middle
		} else {
			most = middle - 1
		}
		middle = (low + most + 1) / 2
	}
	return low
}
