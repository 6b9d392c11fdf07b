package admission

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"colonnade/fleet"
	"colonnade/permits"
)

// Lack is what an engine does not have, by its own words: a model, or a path of the API. One of the fields is set.
type Lack struct {
	Model string // as documents name it
	Path  string // of the API, such as /v1/rerank
}

func (l Lack) name() string { return l.Model + l.Path } // a path begins with a slash, and a model's name does not

// maxLack bounds the time for which an engine gets no requests for what it has said that it lacks, and minLack is that time at first.
const (
	minLack = time.Second
	maxLack = time.Minute
)

// lack is what is known of an engine that lacks something.
type lack struct {
	Lack
	upstream string // by which the engine was asked for the model
	reason   string
	since    time.Time
	until    time.Time // requests for it are not sent to the engine up to then; zero: as long as reason holds
	times    int       // that the engine has said so
}

// holds reports whether the engine gets no requests for what it lacks.
func (l *lack) holds(now time.Time) bool { return l.until.IsZero() || now.Before(l.until) }

// lacking has what engines of a pool lack: by [Lack.name], the engines by URL. It is immutable.
type lacking map[string]map[string]lack

// Lacks reports that e has said that it lacks something. It has not failed: only requests for that, and no others, are kept from it, for
// a second that doubles each time up to a minute. This ends when e restarts, when its list of models has the model, and when its
// document or the model's changes. reason is shown to operators, and must contain nothing of a request.
func (p *Pool) Lacks(e *fleet.Endpoint, l Lack, reason string) {
	m, now := p.manager, time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	engine, ok := m.engines[e.URL]
	if !ok || engine.pool != p || !engine.granted {
		return
	}
	known := engine.lacks[l.name()]
	if known.holds(now) && known.times > 0 {
		return // of several requests that were under way, the first counts
	}
	if known.times == 0 {
		known = lack{Lack: l, since: now}
		m.logger.Warn("endpoint does not have what a request needs", "endpoint", e.ID, "url", e.URL, "pool", p.name, "model", l.Model, "path", l.Path,
			"reason", reason)
	}
	known.reason, known.upstream = truncate(reason), m.upstreamLocked(e, l)
	known.until = now.Add(min(minLack<<min(known.times, 10), maxLack))
	known.times++
	if engine.lacks == nil {
		engine.lacks = map[string]lack{}
	}
	engine.lacks[l.name()] = known
	m.publishLacksLocked(p)
}

// Serves reports that e has served a model at a path, so that it lacks neither.
func (p *Pool) Serves(e *fleet.Endpoint, model, path string) {
	all := p.lacking.Load()
	if all == nil || (*all)[model][e.URL].times == 0 && (*all)[path][e.URL].times == 0 {
		return // it has said nothing of the sort: what the documents say of adapters stands
	}
	m := p.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	if engine, ok := m.engines[e.URL]; ok && engine.pool == p {
		delete(engine.lacks, model)
		delete(engine.lacks, path)
		m.publishLacksLocked(p)
	}
}

// upstreamLocked returns the name by which e is asked for the model of l; empty for a path.
func (m *Manager) upstreamLocked(e *fleet.Endpoint, l Lack) string {
	for _, model := range m.models[e.Pool] {
		if model.Name == l.Model {
			return e.NameOf(model)
		}
	}
	return ""
}

// Avoid returns the IDs of the endpoints that a request must not get: those in base, and those that lack its model or its path. It costs
// next to nothing while no endpoint of the pool lacks anything.
func (p *Pool) Avoid(base []string, model, path string) []string {
	all := p.lacking.Load()
	if all == nil {
		return base
	}
	var out []string
	now := time.Now()
	for _, name := range [...]string{model, path} {
		for url, l := range (*all)[name] {
			if l.holds(now) && !slices.Contains(out, url) {
				out = append(out, url)
			}
		}
	}
	if out == nil {
		return base
	}
	return append(out, base...)
}

// HasIt reports whether an endpoint may get requests for a model at a path.
func (p *Pool) HasIt(e *fleet.Endpoint, model, path string) bool {
	return !slices.Contains(p.Avoid(nil, model, path), e.URL)
}

// LackedByAll returns what all endpoints of the pool lack that do not drain, of the model and the path of a request, and for how long that holds at least.
// ok is false if an endpoint may have both, whether it is up or not.
func (p *Pool) LackedByAll(model, path string) (l Lack, again time.Duration, ok bool) {
	all, endpoints, now := p.lacking.Load(), *p.endpoints.Load(), time.Now()
	if all == nil || len(endpoints) == 0 {
		return Lack{}, 0, false
	}
	again = maxLack
	withoutPath, serving := 0, 0
	for url, e := range endpoints {
		if e.Draining() {
			continue
		}
		serving++
		ofModel, ofPath := (*all)[model][url], (*all)[path][url]
		inModel, inPath := ofModel.Model != "" && ofModel.holds(now), ofPath.Path != "" && ofPath.holds(now)
		switch {
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
		return Lack{Path: path}, again, true
	}
	return Lack{Model: model}, again, true
}

// publishLacksLocked makes requests see what the engines of p lack.
func (m *Manager) publishLacksLocked(p *Pool) {
	all := lacking{}
	add := func(url string, l lack) {
		if all[l.name()] == nil {
			all[l.name()] = map[string]lack{}
		}
		all[l.name()][url] = l
	}
	for url, e := range m.engines {
		if e.pool != p {
			continue
		}
		for _, l := range e.lacks {
			add(url, l)
		}
	}
	for _, model := range m.models[p.name] {
		for url, l := range m.withoutAdapterLocked(p, model) {
			add(url, l)
		}
	}
	if len(all) == 0 {
		p.lacking.Store(nil)
		return
	}
	p.lacking.Store(&all)
}

// withoutAdapterLocked returns the engines of p that do not have the adapter of a model: by their documents, or by their lists of models
// if another engine is known to have it. A list alone proves little, since some engines load an adapter with its first request.
func (m *Manager) withoutAdapterLocked(p *Pool, model *fleet.Model) map[string]lack {
	if model.Adapter == "" {
		return nil
	}
	without, unlisted, found := map[string]lack{}, []string{}, false
	for url, e := range m.engines {
		switch {
		case e.pool != p || e.endpoint.Draining():
		case e.endpoint.Adapters != nil:
			if slices.Contains(e.endpoint.Adapters, model.Adapter) {
				found = true
				continue
			}
			without[url] = lack{Lack: Lack{Model: model.Name}, reason: "adapters of its document do not name " + model.Adapter}
		case e.has(model):
			found = true
		case e.listed != nil:
			unlisted = append(unlisted, url)
		}
	}
	for _, url := range unlisted {
		if found {
			without[url] = lack{Lack: Lack{Model: model.Name}, reason: "its list of models does not have " + model.Adapter}
		}
	}
	return without
}

// has reports whether the engine has listed the model.
func (e *engine) has(model *fleet.Model) bool {
	return slices.Contains(e.listed, e.endpoint.NameOf(model)) || model.Adapter != "" && slices.Contains(e.listed, model.Adapter)
}

// WantsModels reports whether the list of models of the engine at url would decide where requests go: it lacks a model, or models of its
// pool need adapters that its document says nothing about.
func (m *Manager) WantsModels(url string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.engines[url]
	if !ok || e.pool == nil || !e.granted {
		return false
	}
	for _, l := range e.lacks {
		if l.Model != "" {
			return true
		}
	}
	return e.endpoint.Adapters == nil && slices.ContainsFunc(m.models[e.pool.name], func(model *fleet.Model) bool { return model.Adapter != "" })
}

// NoteModels takes the models and adapters that the engine at url lists. names is shared from now on.
func (m *Manager) NoteModels(url string, names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.engines[url]
	if !ok || e.pool == nil {
		return
	}
	e.listed = names
	for _, model := range m.models[e.pool.name] {
		if _, lacked := e.lacks[model.Name]; lacked && e.has(model) {
			m.logger.Info("endpoint has the model again", "endpoint", e.endpoint.ID, "url", url, "pool", e.pool.name, "model", model.Name)
			delete(e.lacks, model.Name)
		}
	}
	m.publishLacksLocked(e.pool)
}

// forgetLacks forgets what the engine at url has said that it lacks, after it was out: it may have been started with more.
func (m *Manager) forgetLacks(url string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.engines[url]
	if !ok || e.pool == nil || len(e.lacks) == 0 && e.listed == nil {
		return
	}
	e.lacks, e.listed = nil, nil
	m.publishLacksLocked(e.pool)
}

// applyModelsLocked takes the models of a table. It forgets what engines have said about a model under another name, or one that is
// gone.
func (m *Manager) applyModelsLocked(t *fleet.Table) {
	m.models = map[string][]*fleet.Model{}
	for _, model := range t.Models() {
		m.models[model.Pool] = append(m.models[model.Pool], model)
	}
	for _, e := range m.engines {
		for name, l := range e.lacks {
			if e.pool == nil || l.Model != "" && m.upstreamLocked(e.endpoint, l.Lack) != l.upstream {
				delete(e.lacks, name)
			}
		}
	}
	for _, p := range m.pools {
		m.publishLacksLocked(p)
	}
}

// lackStats describes what the pool's endpoints lack, by URL and name.
func (p *Pool) lackStats() (list []permits.LackStats) {
	all, now := p.lacking.Load(), time.Now()
	if all == nil {
		return nil
	}
	for _, of := range *all {
		for url, l := range of {
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
