package problems

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"colonnade/fleet"
	"colonnade/internal/wording"
	"colonnade/reasons"
)

// Scope says which documents a table does not have.
type Scope struct {
	// Unseen are the kinds of documents that the table lacks because its node does not watch them. Without endpoints, pools are where servers
	// have registered them.
	Unseen []fleet.Kind
	// Colo is the one whose workers' problems are reported; empty = all.
	Colo string
	// Rejected are the keys of documents that are not in the table, since they are not valid. Nothing is reported as missing that
	// one of them may have.
	Rejected []string
}

// OfTable returns what the documents of a table make impossible, or hardly intend: errors first. Of a model that cannot be served, the subject is
// the key of the model and the kind is reasons.ModelWithoutEndpoint or reasons.ModelWithoutRoute; reasons.StoreEmpty, NoModel and NoColo
// concern all models.
func OfTable(t *fleet.Table, scope Scope) []Problem {
	f := finder{table: t, scope: scope, list: &List{}}
	f.models()
	f.list.AddConflicts(t.Conflicts)
	f.dangling()
	if f.sees(fleet.KindEndpoint) {
		for _, colo := range t.EndpointColos() {
			f.list.Add(SharedEngines(t.EndpointsOf(colo), nil)...)
		}
	}
	if f.sees(fleet.KindPool) {
		f.list.AddPools(t)
	}
	f.list.Add(OfWorkers(t, scope.Colo, time.Now())...)
	return f.list.All()
}

// finder finds the problems of one table.
type finder struct {
	table *fleet.Table
	scope Scope
	list  *List
}

// sees reports whether the table has the documents of all of these kinds.
func (f *finder) sees(kinds ...fleet.Kind) bool {
	return !slices.ContainsFunc(kinds, func(k fleet.Kind) bool { return slices.Contains(f.scope.Unseen, k) })
}

// rejects reports whether a document of a kind is not in the table, since it is not valid. An earlier version of it may be in force.
func (f *finder) rejects(kind fleet.Kind) bool {
	return slices.ContainsFunc(f.scope.Rejected, func(key string) bool { return strings.HasPrefix(key, string(kind)+"/") })
}

// models adds why models cannot be served.
func (f *finder) models() {
	active := f.activeColos()
	switch {
	case len(f.table.Models()) == 0:
		f.noModel()
	case !f.sees(fleet.KindColo, fleet.KindServer):
	case len(active) == 0:
		if !f.rejects(fleet.KindColo) {
			f.list.Errorf(reasons.NoColo, "", "no model can be served: none of the documents colos/… is active")
		}
	default:
		for _, m := range f.table.Models() {
			f.model(m, active)
		}
	}
}

func (f *finder) activeColos() (active []*fleet.Colo) {
	for _, c := range f.table.Colos() {
		if c.State == fleet.StateActive {
			active = append(active, c)
		}
	}
	return active
}

// noModel adds that there is no model, or nothing at all.
func (f *finder) noModel() {
	t := f.table
	switch {
	case f.rejects(fleet.KindModel):
	case len(f.scope.Rejected) == 0 && f.sees(fleet.KindColo, fleet.KindAccount, fleet.KindAPIKey) &&
		len(t.Colos()) == 0 && len(t.Pools()) == 0 && len(t.Accounts()) == 0 && len(t.Issuers()) == 0 && !t.HasAPIKeys() && !t.HasWorkerKeys():
		f.list.Errorf(reasons.StoreEmpty, "", "there are no documents")
	default:
		f.list.Errorf(reasons.NoModel, "", "there is no document models/…")
	}
}

// model adds why a model cannot be served in any of the active colos.
func (f *finder) model(m *fleet.Model, active []*fleet.Colo) {
	var serving []*fleet.Colo
	for _, c := range active {
		if f.mayHave(c, m.Pool) {
			serving = append(serving, c)
		}
	}
	key := fleet.KindModel.Key(m.Name)
	var p *Problem
	switch {
	case len(serving) == 0 && (f.rejects(fleet.KindEndpoint) || f.rejects(fleet.KindColo)):
	case len(serving) == 0:
		p = f.list.Errorf(reasons.ModelWithoutEndpoint, key, "%s: pool: %q: %s, so the model cannot be served", key, m.Pool, f.whyNowhere(m.Pool))
	case m.Routing.Algorithm == fleet.AlgorithmSteps && !selectsAny(m.Routing.Steps, serving) && !f.rejects(fleet.KindColo):
		p = f.list.Errorf(reasons.ModelWithoutRoute, key, "%s: routing.steps: no step selects a colo that has pool %q; it is in: %s",
			key, m.Pool, wording.FirstOf(namesOf(serving)))
	}
	if p != nil {
		p.Effect = fmt.Sprintf("every request for %s gets 503", m.Name)
	}
}

// mayHave reports whether requests for a pool may find an endpoint in a colo. A colo without a server is another problem.
func (f *finder) mayHave(c *fleet.Colo, pool string) bool {
	if f.sees(fleet.KindEndpoint) {
		return slices.ContainsFunc(f.table.Endpoints(c.Name, pool), (*fleet.Endpoint).Serves)
	}
	servers := f.table.Servers(c.Name)
	return len(servers) == 0 || slices.ContainsFunc(servers, func(s *fleet.Server) bool {
		_, has := s.Pools[pool]
		return has || s.Pools == nil
	})
}

// whyNowhere says why no active colo has a pool.
func (f *finder) whyNowhere(pool string) string {
	if !f.sees(fleet.KindEndpoint) {
		return "no server of an active colo has registered this pool"
	}
	var elsewhere []string
	reason := ""              // why an endpoint drains, if its document says so
	without, draining := 0, 0 // endpoints in active colos, none of which gets requests, and those of them that drain
	for _, colo := range f.table.EndpointColos() {
		n := len(f.table.Endpoints(colo, pool))
		switch c, ok := f.table.Colo(colo); {
		case n == 0:
		case !ok:
			elsewhere = append(elsewhere, colo+" (there is no document colos/"+colo+")")
		case c.State != fleet.StateActive:
			elsewhere = append(elsewhere, colo+" ("+c.State+")")
		default:
			without += n
			for _, e := range f.table.Endpoints(colo, pool) {
				if e.Draining() {
					draining++
					if e.StateReason != "" {
						reason = "; " + fleet.KindEndpoint.Key(colo, e.ID) + ": " + e.StateReason
					}
				}
			}
		}
	}
	switch {
	case without > 0 && draining == without:
		return "the endpoints in this pool drain (state: draining" + reason + ")"
	case draining > 0:
		return "the endpoints in this pool drain (state: draining" + reason + ") or have concurrency: 0"
	case without > 0:
		return "the endpoints in this pool have concurrency: 0"
	case len(elsewhere) > 0:
		return "the endpoints in this pool are in colos that get no requests, " + wording.FirstOf(elsewhere)
	}
	return "no endpoint is in this pool"
}

// selectsAny reports whether a step selects one of the colos, however far it is.
func selectsAny(steps []fleet.Step, colos []*fleet.Colo) bool {
	return slices.ContainsFunc(steps, func(s fleet.Step) bool { return slices.ContainsFunc(colos, s.Selects) })
}

func namesOf(colos []*fleet.Colo) (names []string) {
	for _, c := range colos {
		names = append(names, c.Name)
	}
	return names
}

// dangling adds references that lead nowhere. A model without endpoints is a problem of its own.
func (f *finder) dangling() {
	if !f.sees(fleet.KindColo, fleet.KindServer, fleet.KindAccount) {
		return
	}
	for _, d := range f.table.Dangling() {
		if d.Missing != fleet.KindEndpoint && f.sees(d.Missing) && !f.rejects(d.Missing) {
			f.list.AddDangling(d)
		}
	}
}

// OfServers returns what is wrong with the registrations of colo servers in a table: active colos without a server, and models whose
// engines are all down. A server registers the slots of its pools' engines that are up.
func OfServers(t *fleet.Table) []Problem {
	l := &List{}
	for _, c := range t.Colos() {
		if c.State == fleet.StateActive && len(t.Registered(c.Name)) == 0 {
			l.AddColoWithoutServer(c.Name)
		}
	}
	for _, m := range t.Models() {
		if down := downIn(t, m.Pool); len(down) > 0 {
			key := fleet.KindModel.Key(m.Name)
			p := l.Errorf(reasons.PoolDown, key, "%s: pool: %q: no engine of it is up in any colo; it is in: %s", key, m.Pool, wording.FirstOf(down))
			p.Effect = fmt.Sprintf("every request for %s gets 503", m.Name)
		}
	}
	return l.All()
}

// AddColoWithoutServer adds that no server of an active colo is registered.
func (l *List) AddColoWithoutServer(colo string) {
	l.Errorf(reasons.ColoWithoutServer, fleet.KindColo.Key(colo),
		"colo %s: no server is registered: there is none, or it has lost etcd for longer than its lease", colo)
}

// downIn returns the active colos that have registered a pool, if it has slots in none of them.
func downIn(t *fleet.Table, pool string) (colos []string) {
	for _, c := range t.Colos() {
		if c.State != fleet.StateActive {
			continue
		}
		for _, s := range t.Registered(c.Name) {
			switch slots, has := s.Pools[pool]; {
			case s.Pools == nil || slots > 0:
				return nil
			case has && !slices.Contains(colos, c.Name):
				colos = append(colos, c.Name)
			}
		}
	}
	return colos
}
