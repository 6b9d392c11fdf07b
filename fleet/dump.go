package fleet

import (
	"encoding/json"
	"maps"
)

// MarshalJSON writes the table as [Table.Dump] returns it, with all documents.
func (t *Table) MarshalJSON() ([]byte, error) {
	return json.Marshal(t.Dump(func(string) bool { return true }))
}

// TableDump is what [Table.Dump] returns.
type TableDump struct {
	Revision  int64          `json:"revision"`
	Rejected  []Rejection    `json:"rejected"`
	Conflicts []Conflict     `json:"conflicts"`
	Pending   []string       `json:"pending_deletions"`
	Expired   []string       `json:"expired_leases"`
	Origins   []string       `json:"origins"`
	Documents map[string]any `json:"documents"`
}

// Dump returns the table for debug pages in JSON: each noun by the key of its document, resolved. Nouns whose keys are not
// wanted are left out: a node that does not watch their documents would show defaults that are not in force.
func (t *Table) Dump(wanted func(key string) bool) TableDump {
	nouns := t.nouns()
	maps.DeleteFunc(nouns, func(key string, _ any) bool { return !wanted(key) })
	return TableDump{t.Revision, t.Rejected, t.Conflicts, t.PendingDeletions, t.ExpiredLeases, t.origins, nouns}
}

// nouns returns all nouns of the table by the keys of their documents.
func (t *Table) nouns() map[string]any {
	out := map[string]any{}
	if t.deletions != nil {
		out[string(KindDeletions)] = t.deletions
	}
	if t.limits.Bounds() {
		out[string(KindLimits)] = t.limits
	}
	for _, m := range t.modelList {
		out[KindModel.Key(m.Name)] = m
	}
	for _, f := range t.flows {
		out[KindFlow.Key(f.Model)] = f
	}
	for _, p := range t.poolList {
		out[KindPool.Key(p.Name)] = p
	}
	for _, c := range t.coloList {
		out[KindColo.Key(c.Name)] = c
	}
	for _, a := range t.accounts.list {
		out[KindAccount.Key(a.Name)] = a
	}
	for _, i := range t.issuers {
		out[KindIssuer.Key(i.Name)] = i
	}
	for _, c := range t.captures {
		out[KindCapture.Key(c.Name)] = c
	}
	for _, s := range t.sinks {
		out[KindSink.Key(s.Name)] = s
	}
	for k := range t.apiKeys.all() {
		out[KindAPIKey.Key(k.ID)] = k.shown()
	}
	for _, e := range t.entries {
		out[KindEntry.Key(e.Node)] = e
	}
	for _, w := range t.workers {
		out[KindWorker.Key(w.Node)] = w
	}
	for colo, servers := range t.servers {
		for _, s := range servers {
			out[KindServer.Key(colo, s.Node)] = s
		}
	}
	for colo, endpoints := range t.endpoints.colos {
		for _, e := range endpoints.all {
			out[KindEndpoint.Key(colo, e.ID)] = e
		}
	}
	return out
}
