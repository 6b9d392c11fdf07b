package admission

import (
	"sync"

	"colonnade/fleet"
	"colonnade/permits"
)

// PathRule returns which endpoints can have a path of the API, by their documents; nil for a path that each of them may have. It must always
// return the same for the same path.
type PathRule func(path string) func(*fleet.Endpoint) bool

// SetPathRule sets the rule by which endpoints get no requests for a path. It must be called before the first Apply.
func (m *Manager) SetPathRule(r PathRule) { m.pathRule = r }

// pathExclusions has the endpoints of a pool that cannot have a path, by path, once a request has asked for it.
type pathExclusions struct {
	of     *map[string]member // the endpoints of the pool that it was made from
	byPath sync.Map           // of type *permits.Exclusion
}

// withoutPath returns the endpoints that cannot have a path, by their documents.
func (p *Pool) withoutPath(path string) *permits.Exclusion {
	if p.manager.pathRule == nil {
		return nil
	}
	has := p.manager.pathRule(path)
	if has == nil {
		return nil
	}
	endpoints := p.endpoints.Load()
	known := p.paths.Load()
	if known == nil || known.of != endpoints {
		known = &pathExclusions{of: endpoints}
		p.paths.Store(known)
	}
	if x, ok := known.byPath.Load(path); ok {
		return x.(*permits.Exclusion)
	}
	var without []string
	for url, e := range *endpoints {
		if !has(e.Endpoint) {
			without = append(without, url)
		}
	}
	x := permits.NewExclusion(without)
	known.byPath.Store(path, x)
	return x
}
