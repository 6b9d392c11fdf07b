package colo

import (
	"colonnade/fleet"
	"colonnade/openai"
)

// supportOf returns what an endpoint has for a route. One whose document has a path of its own for the route passes its requests, whatever its
// engine is.
func supportOf(e *fleet.Endpoint, r openai.Route) openai.Support {
	if _, own := e.Paths[r.Path]; own {
		return openai.Passed
	}
	return openai.EngineHas(e.Engine, r)
}

// pathRule returns which endpoints may get requests for a path; nil if all may. It leaves out those whose engines never have the path, and of a
// request that cannot be translated those that need it translated.
func pathRule(path string, untranslated bool) func(*fleet.Endpoint) bool {
	r := openai.Route{Path: path}
	if !r.OfSomeEngines() {
		return nil
	}
	if untranslated {
		return func(e *fleet.Endpoint) bool { return supportOf(e, r) == openai.Passed }
	}
	return func(e *fleet.Endpoint) bool { return supportOf(e, r) != openai.Unsupported }
}

// dialect returns the dialect in which the client expects an error of an engine.
func (c *call) dialect() openai.Dialect {
	if c.request.Route.DialectByKind() {
		return c.request.Route.DialectWith(c.engines())
	}
	return c.request.Route.Dialect
}

// engines returns the kinds of the engines in the pool of the request.
func (c *call) engines() (all openai.Engines) {
	for _, e := range c.table.table.Endpoints(c.server.config.Colo, c.pool.Name()) {
		if !e.Draining() {
			all = all.With(e.Engine)
		}
	}
	return all
}
