package document

import (
	"cmp"
	"strings"

	"colonnade/fleet"
)

// resolver turns documents into nouns. It checks no rules: each layer was checked when it was put.
type resolver struct {
	set      *Set
	defaults map[string]any // the defaults document; empty if there is none
	plain    fleet.Pool     // without a document
}

func (s *Set) resolver() resolver {
	r := resolver{set: s}
	if doc, ok := s.good[string(fleet.KindDefaults)]; ok {
		r.defaults = doc.tree
	}
	if noun, err := r.build(identity{Kind: fleet.KindPool}, nil); err == nil {
		r.plain = *noun.(*fleet.Pool)
	}
	return r
}

// under returns a part of the defaults document.
func (r resolver) under(path ...string) map[string]any {
	tree := r.defaults
	for _, name := range path {
		tree, _ = tree[name].(map[string]any)
	}
	return tree
}

// noun returns the noun of a document. Unless a layer below it has changed, it is the one that earlier tables have.
func (r resolver) noun(doc *parsed) (any, *fieldError) {
	if doc.built != nil {
		return doc.built, nil
	}
	out, err := r.build(doc.id, doc.tree)
	if err == nil {
		doc.built = out
	}
	return out, err
}

func (r resolver) build(id identity, tree map[string]any) (any, *fieldError) {
	out := id.blank()
	if err := (decoder{lenient: true, checked: true}).decode(r.layers(id, tree), out); err != nil {
		return nil, err
	}
	switch v := out.(type) {
	case *fleet.Model:
		finishModel(v)
		finishCost(&v.Cost, r.sets("model", tree, "cost", "cached_input"))
	case *fleet.Pool:
		r.finishScore(&v.Balance.Score)
		if !r.sets("pool", tree, "queue", "promote_after") {
			v.Queue.PromoteAfter = min(v.Queue.PromoteAfter, v.Queue.MaxWait/2)
		}
		v.Permits.RealtimeShare = realtimeShare
		if r.sets("pool", tree, "permits", "max_share") {
			v.Permits.RealtimeShare = v.Permits.MaxShare
		}
	case *fleet.Endpoint:
		v.URL, _ = normalURL(v.URL)
		resolveAuto(v, r.guess(v))
		if v.RegisteredBy != "" { // a holder of the key has chosen the URL, and is no operator
			v.Credential = ""
		}
		v.LoadAdapters = v.LoadAdapters && fleet.MayLoadAdapters(v.Engine) // the defaults may say it for all engines
	}
	return out, nil
}

// layers merges a document with what lies below it.
func (r resolver) layers(id identity, tree map[string]any) map[string]any {
	builtin := r.set.builtin.kinds[id.Kind]
	switch id.Kind {
	case fleet.KindModel:
		return merge(builtin, r.under("model"), tree)
	case fleet.KindPool:
		return merge(builtin, r.under("pool"), tree)
	case fleet.KindEndpoint:
		return r.endpointLayers(builtin, tree)
	}
	return merge(builtin, tree)
}

func (r resolver) endpointLayers(builtin, tree map[string]any) map[string]any {
	general := r.under("endpoint")
	engine, _ := merge(builtin, general, tree)["engine"].(string)
	ofEngine, _ := r.set.builtin.engines[engine].(map[string]any)
	ofPool := map[string]any{}
	if name, ok := tree["pool"].(string); ok {
		if pool := r.pool(name); pool.Permits.PerEndpoint > 0 {
			ofPool["concurrency"] = int64(pool.Permits.PerEndpoint)
		}
	}
	return merge(builtin, ofEngine, general, r.under("engines", engine), ofPool, tree)
}

// guess returns the concurrency that an endpoint with concurrency: auto begins with: the number of the strongest layer
// that has one.
func (r resolver) guess(e *fleet.Endpoint) int {
	if n := r.pool(e.Pool).Permits.PerEndpoint; n > 0 {
		return n
	}
	engine, _ := r.set.builtin.engines[e.Engine].(map[string]any)
	for _, layer := range []map[string]any{r.under("engines", e.Engine), r.under("endpoint"), engine} {
		if n, _ := layer["concurrency"].(int64); n > 0 {
			return int(n)
		}
	}
	return 1
}

// pool returns a pool by its document, or else by the defaults.
func (r resolver) pool(name string) *fleet.Pool {
	if doc, ok := r.set.good[fleet.KindPool.Key(name)]; ok {
		if noun, err := r.noun(doc); err == nil {
			return noun.(*fleet.Pool)
		}
	}
	p := r.plain
	p.Name = name
	return &p
}

// realtimeShare is the max_share of a pool that has only realtime models, unless a document sets it. Sessions last for
// minutes or hours: an account with all slots would lock out all others for as long.
const realtimeShare = 0.5

// sets reports whether a document, or the defaults document for its kind, sets a field of one of its parts.
func (r resolver) sets(kind string, tree map[string]any, part, field string) bool {
	for _, layer := range []map[string]any{r.under(kind), tree} {
		fields, _ := layer[part].(map[string]any)
		if _, set := fields[field]; set {
			return true
		}
	}
	return false
}

// finishModel sets defaults that depend on the name of the model, or are inside of a list, where layers do not reach.
func finishModel(m *fleet.Model) {
	if m.Pool == "" {
		m.Pool = m.Name
	}
	if m.UpstreamName == "" {
		m.UpstreamName = cmp.Or(m.Adapter, m.Name)
	}
	for i := range m.Routing.Steps {
		if m.Routing.Steps[i].Pick == "" {
			m.Routing.Steps[i].Pick = fleet.PickOrder
		}
	}
	if m.PromptFilter != nil {
		_, _ = m.PromptFilter.Compile() // each layer was checked, and their lists replace each other
	}
	for i, name := range m.ForwardHeaders {
		m.ForwardHeaders[i] = strings.ToLower(name)
	}
}
