package admission

import (
	"sync"

	"colonnade/fleet"
	"colonnade/permits"
)

// PathRule returns which endpoints can serve a path of the API, by their documents; nil for a path that each of them may have. untranslated leaves
// out those that would serve it by another path. It must always return the same for the same values.
type PathRule func(path string, untranslated bool) func(*fleet.Endpoint) bool

// SetPathRule sets the rule by which endpoints get no requests for a path. It must be called before the first Apply.
func (m *Manager) SetPathRule(r PathRule) { m.pathRule = r }

// documented has the endpoints of a pool that certain requests must not get, by the endpoints' documents, once such a request has come.
type documented struct {
	of     *map[string]member // the endpoints of the pool that it was made from
	byNeed sync.Map           // of type *permits.Exclusion, by what is needed
}

// withoutPath returns the endpoints that cannot have the path of a request.
func (p *Pool) withoutPath(n Need) *permits.Exclusion {
	if p.manager.pathRule == nil {
		return nil
	}
	has := p.manager.pathRule(n.Path, n.Untranslated)
	if has == nil {
		return nil
	}
	return p.excludedBy(Need{Path: n.Path, Untranslated: n.Untranslated}, func(e *fleet.Endpoint) bool { return !has(e) })
}

// external returns the endpoints outside of the fleet.
func (p *Pool) external() *permits.Exclusion {
	return p.excludedBy(Need{Internal: true}, func(e *fleet.Endpoint) bool { return e.External })
}

// excludedBy returns the endpoints of which excludes is true, which it must always be for the same documents and the same need.
func (p *Pool) excludedBy(n Need, excludes func(*fleet.Endpoint) bool) *permits.Exclusion {
	endpoints := p.endpoints.Load()
	known := p.documented.Load()
	if known == nil || known.of != endpoints {
		known = &documented{of: endpoints}
		p.documented.Store(known)
	}
	if x, ok := known.byNeed.Load(n); ok {
		return x.(*permits.Exclusion)
	}
	var excluded []string
	for url, e := range *endpoints {
		if excludes(e.Endpoint) {
			excluded = append(excluded, url)
		}
	}
	x := permits.NewExclusion(excluded)
	known.byNeed.Store(n, x)
	return x
}
