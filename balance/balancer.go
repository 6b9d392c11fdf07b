package balance

import "cmp"

// Balancer chooses endpoints of one pool. It is not safe for concurrent use.
type Balancer struct {
	config    Config
	endpoints []endpoint // in the order of SetEndpoints
	next      int        // index where the next search begins, so that equals take turns
	totals    totals
	ranks     ranks
	weighted  weighted
	ring      ring
	offered   *BuiltRing // by OfferRing
	adapters  adapters
	index     *index

	latencies [latencyClasses][]latency      // of each endpoint
	clock     Instant                        // the latest at which latencies were compared or measured
	costs     [latencyClasses][]latencyBound // of each group, of LeastLatency
	lowest    [latencyClasses][]latencyBound // of latencies, of Score
	most      []float64                      // of each group, by its turn: what no score is above, in the choice under way
	fastest   [latencyClasses]int            // the group that had the least latency
	scores    [latencyClasses][]scoreBound   // likewise
	marks     []uint64                       // of each endpoint: the last of matches that found it
	matches   uint64                         // by scoreMatches

	limit     bound // of the choice under way, as the next
	barredNow []bool
}

// endpoint is one endpoint as its balancer knows it.
type endpoint struct {
	Endpoint
	State
	*learned
}

// learned is what is known of an engine, whatever its slots.
type learned struct {
	credit    int // in smooth weighted round robin; see weighted
	id        string
	at        int // index of the endpoint; None: it is gone
	adapters  endpointAdapters
	latencies [latencyClasses]latency // while it has no index; else see Balancer.latencies
	cached    cached
}

// New returns a balancer without endpoints.
func New(c Config) *Balancer { return &Balancer{config: c, index: newIndex()} }

// Configure changes how endpoints are chosen. It keeps what it has learned, but for an index that the policy does not use.
func (b *Balancer) Configure(c Config) {
	b.config = c
	b.fitRing()
	b.fit()
	if !c.usesIndex() && len(b.index.uses) > 0 {
		for i := range b.endpoints {
			b.Forget(i)
		}
		b.index = newIndex()
	}
}

// SetEndpoints replaces the endpoints. Those that were there before keep what was learned of them; the caller calls Update for each.
func (b *Balancer) SetEndpoints(list []Endpoint) {
	b.settleWeighted()
	known := make(map[string]*learned, len(b.endpoints))
	for i := range b.endpoints {
		l := b.endpoints[i].learned
		for class := range l.latencies {
			l.latencies[class] = b.latencies[class][i]
		}
		known[b.endpoints[i].ID] = l
	}
	b.endpoints = make([]endpoint, len(list))
	b.adapters.loaded = make([]int32, len(list))
	b.adapters.orders++
	for class := range b.latencies {
		b.latencies[class] = make([]latency, len(list))
	}
	for i, e := range list {
		l := cmp.Or(known[e.ID], b.adapters.gone[e.ID])
		if l == nil {
			l = &learned{id: e.ID, cached: cached{newest: none, oldest: none, salt: hashID(e.ID)}}
		}
		l.at, b.adapters.loaded[i] = i, int32(l.adapters.loaded)
		for class, latency := range l.latencies {
			b.latencies[class][i] = latency
		}
		b.endpoints[i] = endpoint{Endpoint: e, learned: l}
		delete(known, e.ID)
		delete(b.adapters.gone, e.ID)
	}
	for _, l := range known {
		b.index.forget(&l.cached)
		b.adapters.removed(l)
	}
	b.next, b.totals, b.weighted = min(b.next, len(list)), totals{}, weighted{}
	b.fitRing()
	b.fit()
}

// Resize changes the slots of one endpoint.
func (b *Balancer) Resize(at, slots int) {
	e := &b.endpoints[at]
	b.totals.count(e, -1)
	e.Slots = slots
	b.totals.count(e, 1)
	b.ranks.changed[at/groupSize]++
	b.rank(at)
}

// Update says how busy an endpoint is.
func (b *Balancer) Update(at int, s State) {
	e := &b.endpoints[at]
	if e.Up && s.Up && e.Free > 0 && s.Free > 0 { // as a rule only the load has changed
		b.totals.load += s.Load - e.Load
		e.State = s
	} else {
		b.totals.count(e, -1)
		e.State = s
		b.totals.count(e, 1)
	}
	b.rank(at)
}

// Choose returns the endpoint for a request. barred has an entry for each endpoint, which is true for those that the request must not
// get; nil: it may get all.
func (b *Balancer) Choose(now Instant, r *Request, barred []bool) Choice {
	switch {
	case b.config.Pick != nil:
		return b.choosePicked(r, barred)
	case b.config.Policy == PrefixAffinity && b.config.Cached != nil:
		return b.chooseCached(r, barred)
	}
	switch b.config.Policy {
	case RoundRobin:
		return b.chooseTurn(barred)
	case WeightedRoundRobin:
		return b.chooseWeighted(barred)
	case ConsistentHash:
		return b.chooseRing(r.key(), barred)
	case PrefixAffinity:
		if b.config.ByRing {
			return b.chooseRing(r.prefix(), barred)
		}
		return b.choosePrefix(now, r, barred)
	case AdapterAffinity:
		return b.chooseAdapter(r, barred)
	case LeastLatency:
		return b.chooseFastest(now, r, barred)
	case Score:
		return b.chooseScore(now, r, barred)
	default:
		return b.chooseLeastLoaded(barred)
	}
}

// Granted says that a request was granted a slot of an endpoint, by Choose or not. The caller calls Update too.
func (b *Balancer) Granted(now Instant, at int, r *Request) {
	b.next = at + 1
	if b.config.Policy == WeightedRoundRobin {
		b.grantWeighted(at)
	}
	if r == nil {
		return
	}
	if r.Adapter != "" {
		b.adapters.granted(b.endpoints[at].learned, r.Adapter)
	}
	b.notePrompt(now, at, r)
}

// Released says that a request that was granted a slot of an endpoint has ended. The endpoint may have another index by now, or be gone;
// then at is None.
func (b *Balancer) Released(at int, id string, r *Request) {
	if r != nil && r.Adapter != "" {
		b.releasedAdapter(at, id, r.Adapter)
	}
}

func (b *Balancer) releasedAdapter(at int, id, adapter string) {
	l := b.adapters.gone[id]
	if at != None {
		l = b.endpoints[at].learned
	}
	if l != nil {
		b.adapters.released(l, adapter)
	}
}

// open reports whether an endpoint has a slot for a request that is barred from some.
func (b *Balancer) open(at int, barred []bool) bool {
	return b.endpoints[at].Free > 0 && (barred == nil || !barred[at])
}
