package registration

import (
	"slices"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// maxCreated bounds the models that one API key with the role worker creates: they stay when their engines have gone.
const maxCreated = 1000

// Additions returns which documents of models and pools a worker may add to those of a table: no model that has its name as an alias of
// another, and no alias that is taken. by is the [fleet.APIKey.Mark] of the key by which the worker is registered; empty = none. With a key, a
// worker adds nothing to the pool of an operator's model, whose engines would be reached past its filters and prices, and moves no model of others
// to another pool.
func Additions(t *fleet.Table, docs []document.Raw, by string) (added []document.Raw) {
	a := additions{table: t, by: by, pools: map[string]bool{}}
	for _, m := range t.Models() {
		a.take(m)
	}
	set := document.NewSet()
	for _, d := range docs {
		_ = set.Put(d.Key, d.Value, 0) // a bad one has no noun
	}
	for _, d := range docs {
		if m, is := set.Noun(d.Key).(*fleet.Model); is && a.mayAdd(m) {
			if _, known := t.Model(m.Name); !known { // else it counts already
				a.take(m)
			}
			added = append(added, a.withoutTaken(d, m))
		}
	}
	for _, d := range docs {
		if p, is := set.Noun(d.Key).(*fleet.Pool); is && a.mayAddPool(p) {
			added = append(added, d)
		}
	}
	return added
}

// additions are the models of a table, and those that are added to it.
type additions struct {
	table     *fleet.Table
	by        string
	pools     map[string]bool // of all models; true for those of an operator's
	createdBy int             // models
}

func (a *additions) take(m *fleet.Model) {
	a.pools[m.Pool] = a.pools[m.Pool] || m.RegisteredBy == ""
	if m.RegisteredBy == a.by {
		a.createdBy++
	}
}

func (a *additions) mayAdd(m *fleet.Model) bool {
	there, known := a.table.Model(m.Name)
	switch {
	case known && there.Name != m.Name:
		return false
	case a.by == "":
		return true
	case known && there.RegisteredBy == a.by && there.Pool == m.Pool: // it stays as it is
		return true
	case known && there.RegisteredBy != a.by && there.Pool != m.Pool: // it would have its requests once the other registration has ended
		return false
	}
	return !a.pools[m.Pool] && a.createdBy < maxCreated
}

func (a *additions) mayAddPool(p *fleet.Pool) bool {
	ofOperator, named := a.pools[p.Name]
	return a.by == "" || named && !ofOperator
}

// withoutTaken returns the document of a model without aliases if another model has one of them.
func (a *additions) withoutTaken(d document.Raw, m *fleet.Model) document.Raw {
	taken := slices.ContainsFunc(m.Aliases, func(alias string) bool {
		other, known := a.table.Model(alias)
		return known && other.Name != m.Name
	})
	if !taken {
		return d
	}
	if without, err := d.SetField("aliases", ""); err == nil {
		return without
	}
	return d
}
