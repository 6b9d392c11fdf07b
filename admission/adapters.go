package admission

import "colonnade/fleet"

// tellAdaptersLocked says to the permits which adapters the pool's engines have, if models or engines have changed.
func (p *Pool) tellAdaptersLocked() {
	if !p.adaptersChanged {
		return
	}
	p.adaptersChanged = false
	for _, e := range p.members {
		e.tellAdaptersLocked(false)
		e.tellUsedLocked()
	}
}

// tellAdaptersLocked says to the permits which adapters the engine has, by its document and its list; complete says that the list is new.
func (e *engine) tellAdaptersLocked(complete bool) {
	if models := e.pool.adapterModelsLocked(); len(models) > 0 {
		e.pool.permits.SetAdapters(e.endpoint.URL, e.adaptersOf(models, e.has), complete)
	}
}

// tellUsedLocked says to the permits which adapters the engine has in use, by its metrics.
func (e *engine) tellUsedLocked() {
	if len(e.active) > 0 {
		e.pool.permits.UseAdapters(e.endpoint.URL, e.adaptersOf(e.pool.adapterModelsLocked(), e.runs))
	}
}

// adaptersOf returns the adapters of the models for which of is true.
func (e *engine) adaptersOf(models []*fleet.Model, of func(*fleet.Model) bool) (names []string) {
	for _, model := range models {
		if of(model) {
			names = append(names, model.Adapter)
		}
	}
	return names
}

// adapterModelsLocked returns the pool's models that need adapters.
func (p *Pool) adapterModelsLocked() (models []*fleet.Model) {
	for _, model := range p.manager.models[p.name] {
		if model.Adapter != "" {
			models = append(models, model)
		}
	}
	return models
}
