package colo

import (
	"cmp"
	"slices"
	"strings"

	"colonnade/permits"
)

// ModelWithheld is a model that engines of its pool lack, so that its requests are kept from them.
type ModelWithheld struct {
	Pool    string
	Model   string
	Engines []string // each with the reason, sorted
	Served  bool     // an engine that is up may serve it
}

// ModelsWithheld returns the models that engines have said they lack, and those that no engine of a pool has, by its documents or lists. It
// leaves out pools without any engine that is up.
func (s *Server) ModelsWithheld() (all []ModelWithheld) {
	for _, p := range s.Pools() {
		if len(p.Lacks) > 0 && len(whyOut(p.Endpoints)) == 0 {
			all = append(all, modelsWithheld(&p)...)
		}
	}
	return all
}

func modelsWithheld(p *permits.Stats) (all []ModelWithheld) {
	type lacks struct {
		urls    map[string]bool
		engines []string
		said    bool
	}
	ids, byModel := map[string]string{}, map[string]*lacks{}
	for _, e := range p.Endpoints {
		ids[e.URL] = e.ID
	}
	for _, l := range p.Lacks {
		if l.Model == "" {
			continue
		}
		of := byModel[l.Model]
		if of == nil {
			of = &lacks{urls: map[string]bool{}}
			byModel[l.Model] = of
		}
		of.urls[l.URL] = true
		of.engines = append(of.engines, cmp.Or(ids[l.URL], l.URL)+": "+l.Reason)
		of.said = of.said || l.AgainSeconds != nil
	}
	for model, of := range byModel {
		served := slices.ContainsFunc(p.Endpoints, func(e permits.EndpointStats) bool {
			return !e.Removed && !e.Draining && (e.State == "up" || e.Withheld) && !of.urls[e.URL]
		})
		if of.said || !served {
			slices.Sort(of.engines)
			all = append(all, ModelWithheld{Pool: p.Pool, Model: model, Engines: of.engines, Served: served})
		}
	}
	slices.SortFunc(all, func(a, b ModelWithheld) int { return strings.Compare(a.Model, b.Model) })
	return all
}
