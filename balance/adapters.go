package balance

// maxLoaded is how many adapters an endpoint is taken to have in memory at most, beside those with requests pending: engines keep as
// many in host memory, and forget first the one that was used longest ago. maxListed bounds those that an engine or its document names.
const (
	maxLoaded = 128
	maxListed = 4096
)

// adapters has the adapters that endpoints have, by name.
type adapters struct {
	byName map[string]*adapter
	gone   map[string]*learned // endpoints that were removed while requests for adapters were pending there, by ID
	loaded []int32             // of each endpoint, by index
	bounds []adapterBound      // of each group of endpoints; nil: AdapterAffinity is not the policy
	grants uint64
	orders uint64   // of endpoints, by SetEndpoints
	spare  []*place // to use again
	unused []*adapter
}

// adapter has the endpoints of one adapter: first those that have it in memory, then those that only name it.
type adapter struct {
	name   string
	places []*place
	ranks  []placeRank // of each place: what choices compare of those in memory, side by side
	loaded int         // of places
	order  uint64      // of endpoints, by which the ranks have their indexes
	latest int         // index of the place that was the best of the last choice, if it is still there
}

// placeRank is how a place compares with others of its adapter.
type placeRank struct {
	rank uint64 // by the pending requests, and of as many, by the last use
	at   int32  // index of the endpoint
}

const (
	pendingBits = 16
	usedBits    = 64 - pendingBits
)

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
	p.rank()
	a.evict(l)
}

// released counts down what granted has counted.
func (a *adapters) released(l *learned, name string) {
	p := l.adapters.places[name]
	if p == nil || p.pending == 0 {
		return
	}
	if p.pending--; p.pending > 0 {
		p.rank()
		return
	}
	p.loaded, p.used = true, a.grants
	p.rank()
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
	of.places, of.ranks = append(of.places, p), append(of.ranks, placeRank{at: int32(l.at)})
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
	p.rank()
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
	if of.places, of.ranks = of.places[:last], of.ranks[:last]; last == 0 {
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
	a.ranks[i], a.ranks[j] = a.ranks[j], a.ranks[i]
}

// rank notes how a place compares with others after a change of it.
func (p *place) rank() {
	p.adapter.ranks[p.index].rank = uint64(min(p.pending, 1<<pendingBits-1))<<usedBits | p.used
}

// refresh gives the places of an adapter the indexes that their endpoints have.
func (a *adapters) refresh(of *adapter) {
	if of.order == a.orders {
		return
	}
	of.order = a.orders
	for i, p := range of.places {
		of.ranks[i].at = int32(p.of.at)
	}
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
