package fleet

import (
	"encoding/json"
	"errors"
	"strings"
)

// Fallback names a model that serves requests for another one when that is out of capacity or down.
type Fallback struct {
	Model    string
	External bool // the model is outside of the fleet; see Account.AllowExternal
}

// externalFallback is the form of a fallback outside of the fleet in documents.
type externalFallback struct {
	External string `json:"external"`
}

// MarshalJSON writes a name, or {"external": name}.
func (f Fallback) MarshalJSON() ([]byte, error) {
	if f.External {
		return json.Marshal(externalFallback{f.Model})
	}
	return json.Marshal(f.Model)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *Fallback) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &f.Model) == nil && f.Model != "" {
		f.External = false
		return nil
	}
	var outside externalFallback
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if d.Decode(&outside) != nil || outside.External == "" {
		return errFallback
	}
	*f = Fallback{Model: outside.External, External: true}
	return nil
}

var errFallback = errors.New(`must be the name of a model, or {external: NAME} for one outside of the fleet`)

// isExternal reports whether any endpoint of a pool is marked as external.
func (t *Table) isExternal(pool string) bool {
	for _, colo := range t.endpoints.colos {
		for _, e := range colo.byPool[pool] {
			if e.External {
				return true
			}
		}
	}
	return false
}

// fallbacks adds the fallbacks of a model that no document describes, and those that can never serve its requests.
func (d *dangling) fallbacks(key string, m *Model) {
	for _, f := range m.Fallback {
		switch other, ok := d.table.Model(f.Model); {
		case !ok:
			d.add(key, "fallback", f.Model, KindModel, "there is no model of this name"+listed(d.otherModels(m)))
		case other == m:
			d.add(key, "fallback", f.Model, KindModel, "this is the model itself, so the entry has no effect")
		case m.Type == TypeRealtime || other.Type == TypeRealtime:
			d.add(key, "fallback", f.Model, KindModel, "realtime sessions have no fallbacks, so the entry has no effect")
		case !f.External && d.table.isExternal(other.Pool):
			d.add(key, "fallback", f.Model, KindAccount,
				"an endpoint of the model is external, so accounts without allow_external get only its other endpoints: write {external: "+f.Model+"} if it has none")
		}
	}
}

func (d *dangling) otherModels(m *Model) []string {
	var names []string
	for _, other := range d.table.modelList {
		if other != m {
			names = append(names, other.Name)
		}
	}
	return names
}
