package admission

import (
	"maps"
	"slices"
	"time"

	"colonnade/fleet"
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

// over reports whether the engine could have been asked again for so long that the lack says nothing any more.
func (l *lack) over(now time.Time) bool { return !l.until.IsZero() && now.Sub(l.until) > maxLack }

// holds reports whether the engine gets no requests for what it lacks.
func (l *lack) holds(now time.Time) bool { return l.until.IsZero() || now.Before(l.until) }

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
	p.publishLackLocked(now, l.name())
}

// Serves reports that e has served a model at a path, so that it lacks neither.
func (p *Pool) Serves(e *fleet.Endpoint, model, path string) {
	all := p.lacking.Load()
	if all == nil || (*all)[model].of(e.URL).times == 0 && (*all)[path].of(e.URL).times == 0 {
		return // it has said nothing of the sort: what the documents say of adapters stands
	}
	m := p.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	if engine, ok := m.engines[e.URL]; ok && engine.pool == p {
		now := time.Now()
		for _, name := range [...]string{model, path} {
			if _, lacked := engine.lacks[name]; lacked {
				delete(engine.lacks, name)
				p.publishLackLocked(now, name)
			}
		}
	}
}

// nameSet has the names that an engine has said; nil: it has not said any.
type nameSet map[string]struct{}

func newNameSet(names []string) nameSet {
	if names == nil {
		return nil
	}
	set := make(nameSet, len(names))
	for _, name := range names {
		set[name] = struct{}{}
	}
	return set
}

func (s nameSet) has(name string) bool {
	_, has := s[name]
	return has
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

// withoutAdapterLocked returns the engines of p that neither have the adapter of a model nor load it: by their documents, or by their lists
// of models if another engine is known to have it or to load it. A list alone proves little, since some engines load an adapter with its
// first request though no document says so.
func (p *Pool) withoutAdapterLocked(model *fleet.Model) map[string]lack {
	if model.Adapter == "" {
		return nil
	}
	without, unlisted, found := map[string]lack{}, []string{}, false
	for url, e := range p.members {
		switch {
		case e.endpoint.Draining():
		case e.has(model), e.endpoint.LoadAdapters:
			found = true
		case e.endpoint.Adapters != nil:
			without[url] = lack{Lack: Lack{Model: model.Name}, reason: "adapters of its document do not name " + model.Adapter}
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

// has reports whether the engine is known to have the adapter of a model: by its document, or by its own words if that does not say.
func (e *engine) has(model *fleet.Model) bool {
	if e.endpoint.Adapters != nil && slices.Contains(e.endpoint.Adapters, model.Adapter) {
		return true
	}
	if e.endpoint.Adapters != nil && !e.endpoint.LoadAdapters {
		return false
	}
	return e.lists(model) || e.runs(model)
}

// runs reports whether the engine's metrics show the adapter of the model in use.
func (e *engine) runs(model *fleet.Model) bool { return e.names(e.active, model) }

// lists reports whether the engine has listed the model.
func (e *engine) lists(model *fleet.Model) bool { return e.names(e.listed, model) }

// names reports whether the model, or its adapter, is among what the engine has said.
func (e *engine) names(said nameSet, model *fleet.Model) bool {
	return said.has(e.endpoint.NameOf(model)) || model.Adapter != "" && said.has(model.Adapter)
}

// changedLocked returns the names of the models whose adapter the engine has said before and not after, or the other way round.
func (e *engine) changedLocked(before, after nameSet) (names []string) {
	all := (before == nil) != (after == nil) // not to have said anything is something else than to say that there is none
	for _, model := range e.pool.manager.models[e.pool.name] {
		if model.Adapter != "" && (all || e.names(before, model) != e.names(after, model)) {
			names = append(names, model.Name)
		}
	}
	return names
}

// WantsModels reports whether the list of models of the engine at url would decide where requests go: it lacks a model, or models of its
// pool need adapters that its document does not say all about.
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
	return e.wantsAdapters(m.models[e.pool.name])
}

// NoteModels takes the models and adapters that the engine at url lists.
func (m *Manager) NoteModels(url string, names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.engines[url]
	if !ok || e.pool == nil {
		return
	}
	listed := newNameSet(names)
	changed := e.changedLocked(e.listed, listed)
	e.listed = listed
	for _, model := range m.models[e.pool.name] {
		if _, lacked := e.lacks[model.Name]; lacked && e.lists(model) {
			m.logger.Info("endpoint has the model again", "endpoint", e.endpoint.ID, "url", url, "pool", e.pool.name, "model", model.Name)
			delete(e.lacks, model.Name)
			changed = append(changed, model.Name)
		}
	}
	e.pool.publishLackLocked(time.Now(), changed...)
	e.tellAdaptersLocked(true)
}

func (e *engine) wantsAdapters(models []*fleet.Model) bool {
	return (e.endpoint.Adapters == nil || e.endpoint.LoadAdapters) && slices.ContainsFunc(models, func(model *fleet.Model) bool { return model.Adapter != "" })
}

// NoteAdapters takes the adapters that the metrics of the engine at url show as running or waiting: it has them, also those that its list of
// models lacks. They prove less than its words and its list, since they may be of a while ago: a lack stays.
func (m *Manager) NoteAdapters(url string, names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.engines[url]
	if !ok || e.pool == nil {
		return
	}
	active := newNameSet(names)
	if maps.Equal(e.active, active) {
		return
	}
	changed := e.changedLocked(e.active, active)
	e.active = active
	e.pool.publishLackLocked(time.Now(), changed...)
	e.tellAdaptersLocked(false)
	e.tellUsedLocked()
}

// forgetLacks forgets what the engine at url has said that it lacks, after it was out: it may have been started with more.
func (m *Manager) forgetLacks(url string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.engines[url]
	if !ok || e.pool == nil {
		return
	}
	e.pool.permits.ForgetAdapters(url)
	if len(e.lacks) == 0 && e.listed == nil && e.active == nil {
		return
	}
	e.lacks, e.listed, e.active = nil, nil, nil
	e.tellAdaptersLocked(false)
	e.pool.publishLacksLocked()
}

// applyModelsLocked takes the models of a table, and publishes what engines lack in the pools whose models or endpoints have changed. It
// forgets what engines have said about a model under another name, or one that is gone.
func (m *Manager) applyModelsLocked(t *fleet.Table) {
	before := m.models
	m.models = map[string][]*fleet.Model{}
	for _, model := range t.Models() {
		m.models[model.Pool] = append(m.models[model.Pool], model)
	}
	for name, p := range m.pools {
		if changed := !slices.Equal(before[name], m.models[name]); changed {
			p.forgetRenamedLocked()
		} else if !p.membersChanged {
			continue
		}
		p.membersChanged, p.adaptersChanged = false, true
		p.publishLacksLocked()
	}
}

// forgetRenamedLocked forgets what engines have said about a model that has another name at them now, or is gone.
func (p *Pool) forgetRenamedLocked() {
	for _, e := range p.members {
		for name, l := range e.lacks {
			if l.Model != "" && p.manager.upstreamLocked(e.endpoint, l.Lack) != l.upstream {
				delete(e.lacks, name)
			}
		}
	}
}
