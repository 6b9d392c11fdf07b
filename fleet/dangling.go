package fleet

import (
	"cmp"
	"maps"
	"slices"
)

// Dangling is a reference to something that no document describes, or a field that has no effect for the lack of something else. It
// is no error, since documents arrive in any order.
type Dangling struct {
	Document string `json:"document"` // key of the document that refers; one of several with the same reference
	Field    string `json:"field,omitempty"`
	Value    string `json:"value"`
	Missing  Kind   `json:"missing"` // the kind of the document that is missing, or that would have to be another one
	Reason   string `json:"reason"`
}

// Dangling returns the references to documents that do not exist and the fields without an effect, sorted by document.
func (t *Table) Dangling() []Dangling {
	d := dangling{table: t, served: map[string]bool{}, wanted: map[string]bool{}, regions: map[string]bool{}}
	for _, colo := range t.endpoints.colos {
		for pool := range colo.byPool {
			d.served[pool] = true
		}
	}
	for _, m := range t.modelList {
		d.wanted[m.Pool] = true
	}
	for _, c := range t.coloList {
		if c.Region != "" {
			d.regions[c.Region] = true
		}
	}
	d.accounts()
	d.colos()
	d.models()
	d.flows()
	slices.SortStableFunc(d.found, func(a, b Dangling) int { return cmp.Compare(a.Document, b.Document) })
	return d.found
}

type dangling struct {
	table   *Table
	served  map[string]bool // pools that have endpoints
	wanted  map[string]bool // pools that models name
	regions map[string]bool
	found   []Dangling
}

func (d *dangling) add(document, field, value string, missing Kind, reason string) {
	d.found = append(d.found, Dangling{Document: document, Field: field, Value: value, Missing: missing, Reason: reason})
}

func (d *dangling) models() {
	for _, m := range d.table.modelList {
		key := KindModel.Key(m.Name)
		if !d.served[m.Pool] {
			d.add(key, "pool", m.Pool, KindEndpoint, "no endpoint is in this pool, so the model cannot be served")
		}
		d.routing(key, m)
		d.fallbacks(key, m)
	}
}

// colos adds the first endpoint or server of each colo that no document describes, and the first endpoint of each pool
// that no model uses.
func (d *dangling) colos() {
	unused := map[string]bool{}
	for _, colo := range slices.Sorted(maps.Keys(d.table.endpoints.colos)) {
		all := d.table.EndpointsOf(colo)
		if _, ok := d.table.Colo(colo); !ok && len(all) > 0 {
			d.add(KindEndpoint.Key(colo, all[0].ID), "", colo, KindColo,
				"there is no document colos/"+colo+", so no request is sent to this colo")
		}
		for _, e := range all {
			key := KindEndpoint.Key(colo, e.ID)
			if !d.wanted[e.Pool] && !unused[e.Pool] {
				unused[e.Pool] = true
				d.add(key, "pool", e.Pool, KindModel, "no model uses this pool, so nothing is sent to its endpoints")
			}
			for _, model := range slices.Sorted(maps.Keys(e.Names)) {
				if _, ok := d.table.models[model]; !ok {
					d.add(key, "names", model, KindModel, "there is no model of this name")
				}
			}
		}
	}
	for _, colo := range slices.Sorted(maps.Keys(d.table.servers)) {
		if _, ok := d.table.Colo(colo); !ok {
			key := KindServer.Key(colo, d.table.servers[colo][0].Node)
			d.add(key, "", colo, KindColo, "there is no document colos/"+colo+", so no request is sent to this server")
		}
	}
}

func (d *dangling) accounts() {
	for _, a := range d.table.accounts.list {
		for _, name := range a.Models {
			if _, ok := d.table.models[name]; !ok {
				d.add(KindAccount.Key(a.Name), "models", name, KindModel,
					"there is no model of this name (aliases do not count here)")
			}
		}
	}
}
