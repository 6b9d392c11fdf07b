package admission

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"colonnade/fleet"
	"colonnade/permits"
)

// lacking has what engines of a pool lack, by [Lack.name]. It is immutable.
type lacking map[string]*lackers

// lackers are the engines of a pool that lack one thing. It is immutable; nil is none.
type lackers struct {
	engines  map[string]lack    // by URL
	excluded *permits.Exclusion // the engines of which the lack holds
	until    time.Time          // when the first of these is asked again; zero: none is, by the passing of time
}

// of returns what is known of an engine; the zero lack if that is nothing.
func (l *lackers) of(url string) lack {
	if l == nil {
		return lack{}
	}
	return l.engines[url]
}

func newLackers(engines map[string]lack, now time.Time) *lackers {
	made, holding := &lackers{engines: engines}, make([]string, 0, len(engines))
	for url, l := range engines {
		if !l.holds(now) {
			continue
		}
		holding = append(holding, url)
		if !l.until.IsZero() && (made.until.IsZero() || l.until.Before(made.until)) {
			made.until = l.until
		}
	}
	made.excluded = permits.NewExclusion(holding)
	return made
}

// Need is what a request needs of the endpoint that serves it.
type Need struct {
	Model, Path  string
	Untranslated bool // it cannot be translated to another path of the engine
	Internal     bool // an endpoint outside of the fleet must not get it
}

// Excluded returns the endpoints that a request must not get. It costs next to nothing while no endpoint of the pool lacks anything, and each may
// have the path.
func (p *Pool) Excluded(n Need) (x permits.Exclusions) {
	if all := p.lacking.Load(); all != nil {
		x[0], x[1] = p.excluded(*all, n.Model), p.excluded(*all, n.Path)
	}
	x[2] = p.withoutPath(n)
	if n.Internal {
		x[3] = p.external()
	}
	return x
}

func (p *Pool) excluded(all lacking, name string) *permits.Exclusion {
	l := all[name]
	if l == nil {
		return nil
	}
	now := time.Now()
	if l.until.IsZero() || now.Before(l.until) {
		return l.excluded
	}
	m := p.manager // the time of an engine is over: it is asked again
	m.mu.Lock()
	defer m.mu.Unlock()
	p.publishLackLocked(now, name)
	if renewed := p.lacking.Load(); renewed != nil && (*renewed)[name] != nil {
		return (*renewed)[name].excluded
	}
	return nil
}

// Has reports whether an endpoint has what a request needs.
func (p *Pool) Has(e *fleet.Endpoint, n Need) bool {
	x := p.Excluded(n)
	return !x.Has(e.URL)
}

// LackedByAll returns what all endpoints of the pool lack that do not drain, of the model and the path of a request, and for how long that
// holds at least. ok is false if an endpoint may have both, whether it is up or not.
func (p *Pool) LackedByAll(n Need) (l Lack, again time.Duration, ok bool) {
	known, endpoints, now := p.lacking.Load(), *p.endpoints.Load(), time.Now()
	without := p.withoutPath(n)
	if known == nil && without == nil || len(endpoints) == 0 {
		return Lack{}, 0, false
	}
	var all lacking
	if known != nil {
		all = *known
	}
	again = maxLack
	withoutPath, serving := 0, 0
	for url, e := range endpoints {
		if e.Draining() {
			continue
		}
		serving++
		ofModel, ofPath := all[n.Model].of(url), all[n.Path].of(url)
		inModel, inPath := ofModel.Model != "" && ofModel.holds(now), ofPath.Path != "" && ofPath.holds(now)
		switch {
		case without.Has(url):
			withoutPath++
		case inPath:
			withoutPath++
			again = min(again, ofPath.until.Sub(now))
		case inModel && !ofModel.until.IsZero():
			again = min(again, ofModel.until.Sub(now))
		case !inModel:
			return Lack{}, 0, false
		}
	}
	if serving == 0 {
		return Lack{}, 0, false
	}
	if withoutPath == serving {
		return Lack{Path: n.Path}, again, true
	}
	return Lack{Model: n.Model}, again, true
}

// publishLacksLocked makes requests see everything that the engines of p lack.
func (p *Pool) publishLacksLocked() {
	now, found := time.Now(), map[string]map[string]lack{}
	for url, e := range p.members {
		for name, l := range e.lacks {
			if found[name] == nil {
				found[name] = map[string]lack{}
			}
			found[name][url] = l
		}
	}
	for _, model := range p.manager.models[p.name] {
		for url, l := range p.withoutAdapterLocked(model) {
			if found[model.Name] == nil {
				found[model.Name] = map[string]lack{}
			}
			found[model.Name][url] = l
		}
	}
	all := make(lacking, len(found))
	for name, engines := range found {
		all[name] = newLackers(engines, now)
	}
	p.storeLacking(all)
}

// publishLackLocked makes requests see which engines of p lack what names stand for, of which something may have changed.
func (p *Pool) publishLackLocked(now time.Time, names ...string) {
	if len(names) == 0 {
		return
	}
	changed := make(map[string]map[string]lack, len(names))
	for _, name := range names {
		engines := map[string]lack{}
		for url, e := range p.members {
			if l, lacked := e.lacks[name]; lacked {
				engines[url] = l
			}
		}
		changed[name] = engines
	}
	for _, model := range p.manager.models[p.name] {
		if engines := changed[model.Name]; engines != nil {
			maps.Copy(engines, p.withoutAdapterLocked(model))
		}
	}
	all := lacking{}
	if before := p.lacking.Load(); before != nil {
		all = maps.Clone(*before)
	}
	for name, engines := range changed {
		if delete(all, name); len(engines) > 0 {
			all[name] = newLackers(engines, now)
		}
	}
	p.storeLacking(all)
}

func (p *Pool) storeLacking(all lacking) {
	if len(all) == 0 {
		p.lacking.Store(nil)
		return
	}
	p.lacking.Store(&all)
}

// lackStats describes what the pool's endpoints lack, by URL and name.
func (p *Pool) lackStats() (list []permits.LackStats) {
	all, now := p.lacking.Load(), time.Now()
	if all == nil {
		return nil
	}
	for _, of := range *all {
		for url, l := range of.engines {
			if l.over(now) {
				continue
			}
			s := permits.LackStats{URL: url, Model: l.Model, Path: l.Path, Reason: l.reason}
			if !l.until.IsZero() {
				s.AgainSeconds = new(max(0, l.until.Sub(now).Seconds()))
			}
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b permits.LackStats) int {
		return cmp.Or(strings.Compare(a.URL, b.URL), strings.Compare(a.Model+a.Path, b.Model+b.Path))
	})
	return list
}
