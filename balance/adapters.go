package balance

import (
	"math"
	"slices"
)

// maxLoaded is how many adapters an endpoint is taken to have in memory at most, beside those with requests pending: engines keep as
// many in host memory, and forget first the one that was used longest ago. maxListed bounds those that an engine or its document names.
const (
	maxLoaded = 128
	maxListed = 4096
	maxLooked = 32 // endpoints that only name an adapter, of which the best is taken
)

// adapters has the adapters that endpoints have, by name.
type adapters struct {
	byName map[string]*adapter
	gone   map[string]*learned // endpoints that were removed while requests for adapters were pending there, by ID
	loaded []int32             // of each endpoint, by index
	bounds []adapterBound      // of each group of endpoints; nil: AdapterAffinity is not the policy
	grants uint64
	spare  []*place // to use again
	unused []*adapter
}

// adapter has the endpoints of one adapter: first those that have it in memory, then those that only name it.
type adapter struct {
	name   string
	places []*place
	loaded int // of places
}

// place is an adapter at an endpoint.
type place struct {
	adapter *adapter
	of      *learned
	index   int    // in adapter.places
	pending int    // requests granted and not released
	listed  bool   // the engine or its document names it
	loaded  bool   // it is likely in memory: requests for it are pending, or were not long ago
	used    uint64 // when it was granted or released last, in grants; 0: not since it was loaded
	report  uint64 // of the endpoint, before it was granted last

	older, newer *place // of the endpoint's idle ones, without pending requests
}

// endpointAdapters has the adapters of one endpoint.
type endpointAdapters struct {
	places map[string]*place
	loaded int
	idle   struct{ oldest, newest *place }
	report uint64 // how many lists of it were read
}

// chooseAdapter returns an endpoint that has the adapter and room for it, the one with the most requests for it pending: so it stays where
// it is. If there is none, it returns the endpoint with the fewest adapters.
func (b *Balancer) chooseAdapter(r *Request, barred []bool) Choice {
	if r == nil || r.Adapter == "" {
		return b.chooseLeastLoaded(barred)
	}
	var best, busy *place
	if a := b.adapters.byName[r.Adapter]; a != nil {
		if best, busy = b.bestPlace(a.places[:a.loaded], nil, barred); best == nil {
			best, busy = b.bestListed(a.places[a.loaded:], busy, barred)
		}
	}
	c := Choice{Prefers: None, Why: Adapter}
	if best == nil {
		if c.At = b.fewestAdapters(barred); c.At != None && b.endpoints[c.At].adapters.places[r.Adapter] == nil {
			c.Why = AdapterNew
		}
	} else {
		c.At = best.of.at
	}
	if busy != nil && (best == nil || busy.loaded && !best.loaded) {
		c.Prefers = busy.of.at
	}
	return c
}

// bestPlace returns the best of the places with room for a further request: of those with a free slot, and of those, and busy, without.
func (b *Balancer) bestPlace(places []*place, busy *place, barred []bool) (best, busiest *place) {
	room := max(b.config.AdapterPending, 1)
	for _, p := range places {
		at := p.of.at
		switch {
		case at == None || p.pending >= room:
		case b.open(at, barred):
			if best == nil || b.betterPlace(p, best) {
				best = p
			}
		case b.endpoints[at].Up && (barred == nil || !barred[at]):
			if busy == nil || b.betterPlace(p, busy) {
				busy = p
			}
		}
	}
	return best, busy
}

// bestListed is bestPlace for places that only name the adapter. They may be all endpoints for each of many adapters, so it looks at a few of
// them, beginning elsewhere each time, and at further ones only while it has found none.
func (b *Balancer) bestListed(places []*place, busy *place, barred []bool) (best, busiest *place) {
	if len(places) <= maxLooked {
		return b.bestPlace(places, busy, barred)
	}
	start := int(b.adapters.grants % uint64(len(places)))
	for _, part := range [...][]*place{places[start:], places[:start]} {
		for len(part) > 0 && best == nil {
			n := min(len(part), maxLooked)
			best, busy = b.bestPlace(part[:n], busy, barred)
			part = part[n:]
		}
	}
	return best, busy
}

func (b *Balancer) betterPlace(p, other *place) bool {
	switch {
	case p.loaded != other.loaded:
		return p.loaded
	case p.pending != other.pending:
		return p.pending > other.pending
	case p.used != other.used:
		return p.used > other.used
	}
	return b.fewerAdapters(p.of.at, other.of.at)
}

// adapterBound is what no open endpoint of a group has less of: adapters in memory, and of as many, its share as in ranks.
type adapterBound struct {
	loaded int32
	share  float64
}

func (a adapterBound) less(other adapterBound) bool {
	return a.loaded < other.loaded || a.loaded == other.loaded && a.share < other.share
}

// noAdapterBound is that of a group without an open endpoint.
var noAdapterBound = adapterBound{math.MaxInt32, never}

func (b *Balancer) fitAdapters() {
	b.adapters.bounds = nil
	if b.config.Policy == AdapterAffinity {
		b.adapters.bounds = slices.Repeat([]adapterBound{noAdapterBound}, groupsOf(len(b.endpoints)))
	}
}

// lessShare notes that an endpoint has a smaller share than before.
func (a *adapters) lessShare(at int, share float64) {
	if a.bounds == nil {
		return
	}
	if bound := &a.bounds[at/groupSize]; (adapterBound{a.loaded[at], share}).less(*bound) {
		*bound = adapterBound{a.loaded[at], share}
	}
}

// fewestAdapters returns the open endpoint with the fewest adapters in memory, the least loaded of several.
func (b *Balancer) fewestAdapters(barred []bool) int {
	best, fewest, bounds, t := None, noAdapterBound, b.adapters.bounds, b.turn()
	for k := 0; k <= t.groups; k++ {
		g := t.group(k)
		if t.whole(k) && !bounds[g].less(fewest) {
			continue
		}
		from, to := t.span(k, g)
		low := noAdapterBound
		for at := from; at < to; at++ {
			has := adapterBound{b.adapters.loaded[at], b.ranks.shares[at]}
			if has.share == never {
				continue
			}
			if has.less(low) {
				low = has
			}
			if has.less(fewest) && (barred == nil || !barred[at]) {
				best, fewest = at, has
			}
		}
		if t.whole(k) {
			bounds[g] = low
		}
	}
	return best
}

func (b *Balancer) fewerAdapters(at, other int) bool {
	if n, of := b.adapters.loaded[at], b.adapters.loaded[other]; n != of {
		return n < of
	}
	return b.endpoints[at].lessLoaded(&b.endpoints[other])
}

// SetAdapters says which adapters an endpoint has, by its list or its document. complete says that it has no others: those that were sent
// there before the last time, and are not named, are forgotten. Between two times, it may have loaded some.
func (b *Balancer) SetAdapters(at int, names []string, complete bool) {
	l := b.endpoints[at].learned
	l.adapters.report++
	for _, p := range l.adapters.places {
		p.listed = false
	}
	for _, name := range names[:min(len(names), maxListed)] {
		b.adapters.place(l, name).listed = true
	}
	for _, p := range l.adapters.places {
		if complete && !p.listed && p.loaded && p.pending == 0 && p.report+1 < l.adapters.report {
			b.adapters.unload(p)
		} else {
			b.adapters.forgetUnknown(p)
		}
	}
}

// UseAdapters says which adapters an endpoint has in use, by its own words: they are in its memory, also for requests of others.
func (b *Balancer) UseAdapters(at int, names []string) {
	l := b.endpoints[at].learned
	for _, name := range names[:min(len(names), maxLoaded)] {
		if p := b.adapters.place(l, name); p.pending == 0 {
			b.adapters.load(p)
			p.idle()
		}
	}
	b.adapters.evict(l)
}

// ForgetAdapters says that an endpoint has nothing in memory any more, since its engine has been restarted.
func (b *Balancer) ForgetAdapters(at int) { b.adapters.unloadIdle(b.endpoints[at].learned) }

// granted counts a request for an adapter that an endpoint gets.
func (a *adapters) granted(l *learned, name string) {
	p := a.place(l, name)
	if p.loaded && p.pending == 0 {
		p.unlink()
	}
	a.load(p)
	a.grants++
	p.pending++
	p.used, p.report = a.grants, l.adapters.report
	a.evict(l)
}

// released counts down what granted has counted.
func (a *adapters) released(l *learned, name string) {
	p := l.adapters.places[name]
	if p == nil || p.pending == 0 {
		return
	}
	if p.pending--; p.pending > 0 {
		return
	}
	p.loaded, p.used = true, a.grants
	p.link()
	a.evict(l)
	if l.at == None {
		a.unloadIdle(l)
	}
}

// place returns the place of an adapter at an endpoint; a new one if there is none.
func (a *adapters) place(l *learned, name string) *place {
	if p := l.adapters.places[name]; p != nil {
		return p
	}
	of := a.byName[name]
	if of == nil {
		if a.byName == nil {
			a.byName = map[string]*adapter{}
		}
		if n := len(a.unused); n > 0 {
			of, a.unused = a.unused[n-1], a.unused[:n-1]
		} else {
			of = &adapter{}
		}
		of.name = name
		a.byName[name] = of
	}
	var p *place
	if n := len(a.spare); n > 0 {
		p, a.spare = a.spare[n-1], a.spare[:n-1]
	} else {
		p = &place{}
	}
	*p = place{adapter: of, of: l, index: len(of.places)}
	of.places = append(of.places, p)
	if l.adapters.places == nil {
		l.adapters.places = map[string]*place{}
	}
	l.adapters.places[name] = p
	return p
}

// load notes that an adapter is in the memory of an endpoint.
func (a *adapters) load(p *place) {
	if p.loaded {
		return
	}
	of := p.adapter
	of.swap(p.index, of.loaded)
	of.loaded++
	p.loaded = true
	a.count(p.of, 1)
	p.report = p.of.adapters.report
}

// unload notes that an adapter without pending requests is not in the memory of an endpoint.
func (a *adapters) unload(p *place) {
	p.unlink()
	of := p.adapter
	of.loaded--
	of.swap(p.index, of.loaded)
	p.loaded, p.used = false, 0
	a.count(p.of, -1)
	a.forgetUnknown(p)
}

// count counts the adapters in the memory of an endpoint.
func (a *adapters) count(l *learned, n int) {
	l.adapters.loaded += n
	if l.at == None {
		return
	}
	a.loaded[l.at] = int32(l.adapters.loaded)
	if a.bounds != nil && n < 0 {
		if bound := &a.bounds[l.at/groupSize]; a.loaded[l.at] <= bound.loaded {
			*bound = adapterBound{loaded: a.loaded[l.at]} // whatever its share
		}
	}
}

// evict unloads the adapters of an endpoint that were used longest ago.
func (a *adapters) evict(l *learned) {
	for l.adapters.loaded > maxLoaded && l.adapters.idle.oldest != nil {
		a.unload(l.adapters.idle.oldest)
	}
}

func (a *adapters) unloadIdle(l *learned) {
	for l.adapters.idle.oldest != nil {
		a.unload(l.adapters.idle.oldest)
	}
	if l.at == None && len(l.adapters.places) == 0 {
		delete(a.gone, l.id)
	}
}

// forgetUnknown drops a place if nothing says that the adapter is there.
func (a *adapters) forgetUnknown(p *place) {
	if p.loaded || p.listed {
		return
	}
	of, last := p.adapter, len(p.adapter.places)-1
	of.swap(p.index, last)
	of.places[last] = nil
	if of.places = of.places[:last]; last == 0 {
		delete(a.byName, of.name)
		if len(a.unused) < maxLoaded {
			a.unused = append(a.unused, of)
		}
	}
	delete(p.of.adapters.places, of.name)
	*p = place{}
	if len(a.spare) < maxLoaded {
		a.spare = append(a.spare, p)
	}
}

// removed takes an endpoint out, and keeps only its pending requests.
func (a *adapters) removed(l *learned) {
	l.at = None
	for _, p := range l.adapters.places {
		p.listed = false
		a.forgetUnknown(p)
	}
	if len(l.adapters.places) > 0 {
		if a.gone == nil {
			a.gone = map[string]*learned{}
		}
		a.gone[l.id] = l
	}
	a.unloadIdle(l)
}

func (a *adapter) swap(i, j int) {
	a.places[i], a.places[j] = a.places[j], a.places[i]
	a.places[i].index, a.places[j].index = i, j
}

// idle makes a loaded place without pending requests the one that was used last.
func (p *place) idle() {
	p.unlink()
	p.link()
}

func (p *place) link() {
	list := &p.of.adapters.idle
	p.older, p.newer = list.newest, nil
	if list.newest != nil {
		list.newest.newer = p
	} else {
		list.oldest = p
	}
	list.newest = p
}

// unlink does nothing to a place that is not linked.
func (p *place) unlink() {
	list := &p.of.adapters.idle
	if p.older != nil {
		p.older.newer = p.newer
	} else if list.oldest == p {
		list.oldest = p.newer
	}
	if p.newer != nil {
		p.newer.older = p.older
	} else if list.newest == p {
		list.newest = p.older
	}
	p.older, p.newer = nil, nil
}
