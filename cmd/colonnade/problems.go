package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"colonnade/change"
	"colonnade/fleet"
	"colonnade/problems"
	"colonnade/reasons"
)

// fleetProblems lists what is wrong with a fleet, of the colos that a query includes: errors before warnings, and of the errors
// rejected documents first.
func fleetProblems(s *fleetState, q *poolQuery) []problems.Problem {
	l := &problems.List{}
	scope := problems.Scope{}
	if q != nil {
		scope.Colo = q.colo
	}
	for _, r := range s.rejections() {
		scope.Rejected = append(scope.Rejected, r.Key)
		e := r.InvalidError
		e.Key = fmt.Sprintf("%s (revision %d)", r.Key, s.revisions[r.Key])
		text := e.Error()
		if len(r.instead) > 0 {
			text += "; in force: " + firstOf(r.instead)
		}
		l.Errorf(reasons.DocumentRejected, r.Key, "%s", text)
	}
	if s.listErr != "" {
		l.Errorf(reasons.StoreSilent, "", "%s", s.listErr)
	}
	held := heldBy(s.Nodes)
	if s.Etcd != "" {
		addServers(l, s, q)
		l.Add(held.inForce(problems.OfTable(s.table, scope), s.table)...)
	}
	addRecords(l, s, q) // before what nodes say of them
	all := append(slices.Clone(s.Nodes), s.entries...)
	s.keyFaults = fleetKeyFaults(all)
	for i := range s.Nodes {
		addNode(l, s, &s.Nodes[i])
	}
	addFleetKeys(l, all, s.keyFaults)
	for i := range s.entries {
		if n := &s.entries[i]; n.Config != nil {
			addReported(l, s, n)
		}
	}
	addBlocked(l, s)
	if len(held.keys) > 0 {
		l.Errorf(reasons.DeletionsHeld, "", "%s", held)
	}
	return oncePerPool(l.All(), s.table)
}

// oncePerPool leaves out that no engine of a model's pool is up where the servers of the colos report it too: they name the engines. Their
// problem then has the effect on the models.
func oncePerPool(all []problems.Problem, table *fleet.Table) []problems.Problem {
	models := map[int][]string{} // of the problem at an index
	left := slices.DeleteFunc(slices.Clone(all), func(p problems.Problem) bool {
		name, ok := strings.CutPrefix(p.Subject, fleet.KindModel.Key(""))
		m, known := table.Model(name)
		if p.Kind != reasons.PoolDown || !ok || !known {
			return false
		}
		reported := false
		for i, of := range all {
			if of.Kind == reasons.PoolDown && strings.Contains(of.Text, ": pool "+m.Pool+": no engine is up") {
				models[i], reported = append(models[i], m.Name), true
			}
		}
		return reported
	})
	for i, names := range models {
		at := slices.Index(left, all[i])
		left[at].Effect = fmt.Sprintf("every request for %s gets 503", firstOf(names))
	}
	return left
}

// addServers adds the active colos without a server, of those that a query includes, and the models whose engines are all down.
func addServers(l *problems.List, s *fleetState, q *poolQuery) {
	for _, p := range problems.OfServers(s.table) {
		if p.Kind != reasons.ColoWithoutServer || q.includes(roleColo, strings.TrimPrefix(p.Subject, fleet.KindColo.Key(""))) {
			l.Add(p)
		}
	}
}

// count returns the number of problems of one severity.
func (s *fleetState) count(severity problems.Severity) (n int) {
	for _, p := range s.Problems {
		if p.Severity == severity {
			n++
		}
	}
	return n
}

// err returns the error of a command that has printed the problems; warnings are none.
func (s *fleetState) err() error {
	if n := s.count(problems.SeverityError); n > 0 {
		return fmt.Errorf("%s found", count(n, "error"))
	}
	return nil
}

// addNode adds the problems of a node, but for the deletions that it holds back.
func addNode(l *problems.List, s *fleetState, n *nodeState) {
	name, c := n.name(), n.Config
	if c == nil {
		p := l.Errorf(reasons.NodeUnreachable, n.Document, "%s: %s", name, n.unreachable())
		if strings.Contains(n.Error, onAnotherMachine) {
			p.Action = "look whether the node runs, and at its log"
		}
		return
	}
	if n.NotReady != "" && n.State != fleet.StateDraining && n.NotReady != fleet.StateDraining && !n.reports(reasons.EntryNotBelieved) {
		l.Errorf(reasons.NodeNotReady, n.Document, "%s: is not ready: %s", name, n.NotReady)
	}
	if c.Revision > s.newest {
		l.Errorf(reasons.StoreMismatch, n.Document, "%s: has heard of revision %d, but etcd is at %d: it follows another etcd, or this one was restored", name, c.Revision, s.newest)
	}
	addReported(l, s, n)
}

// reports reports whether a node has a problem of a kind.
func (n *nodeState) reports(kind string) bool {
	return n.Config != nil && slices.ContainsFunc(n.Config.Problems, func(p problems.Problem) bool { return p.Kind == kind })
}

// addReported adds the problems that a node reports, or that the state of one of an older version shows. The documents in etcd and the states
// of all nodes say more about some of them.
func addReported(l *problems.List, s *fleetState, n *nodeState) {
	reported := n.Config.Problems
	if reported == nil {
		derived := &problems.List{}
		if n.Config.Source != "" {
			n.Config.AddDocuments(derived, n.name())
		}
		n.Config.AddProblems(derived, n.Document, n.name(), s.Time)
		reported = derived.All()
	}
	before := l.All()
	for _, p := range reported {
		known := slices.ContainsFunc(before, func(b problems.Problem) bool {
			return b.Kind == p.Kind && b.Subject == p.Subject && p.Subject != n.Document
		})
		shown := p.Kind == reasons.NodeNotReady || p.Kind == reasons.DeletionsHeld // by its page, and of all nodes together
		if !known && !shown && (s.Etcd == "" || !slices.Contains(ofDocuments, p.Kind)) {
			if rest, ok := strings.CutPrefix(p.Text, n.Config.Node+": "); ok && n.Document == "" {
				p.Text = n.name() + ": " + rest // at the address where it was asked
			}
			if p, shown := byKeys(p, n, s.keyFaults); shown {
				l.Add(p)
			}
		}
	}
}

// ofDocuments are the kinds of problems that the documents in etcd show, so that those which nodes report would stand twice.
var ofDocuments = []string{
	reasons.StoreEmpty, reasons.NoModel, reasons.NoColo, reasons.ModelWithoutEndpoint, reasons.ModelWithoutRoute, reasons.DocumentRejected,
	reasons.DocumentConflict, reasons.ReferenceDangling, reasons.PoolSetting, reasons.ColoWithoutServer,
	reasons.EngineOut, reasons.EngineRestarting, reasons.GPUFailed,
}

// name returns the key of a node's document, or if it is not known, its address.
func (n *nodeState) name() string { return cmp.Or(n.Document, n.Admin) }

// unreachable says that a node could not be asked, and why.
func (n *nodeState) unreachable() string {
	if n.Admin == "" {
		return "cannot be asked: " + n.Error
	}
	return "cannot be asked at " + n.Admin + ": " + n.Error
}

// heldDeletions are the deletions that nodes hold back, in the order in which they report them.
type heldDeletions struct {
	keys, nodes []string
	ways        deletionWays
}

func heldBy(nodes []nodeState) (h heldDeletions) {
	for _, n := range nodes {
		if n.Config == nil || len(n.Config.PendingDeletions) == 0 {
			continue
		}
		h.nodes = append(h.nodes, n.Node)
		h.ways.add(n.Config.HeldDeletions)
		for _, key := range n.Config.PendingDeletions {
			if !slices.Contains(h.keys, key) {
				h.keys = append(h.keys, key)
			}
		}
	}
	return h
}

// inForce corrects the effects of what the documents in etcd lack, where nodes still serve by those that were deleted.
// References to them are no problem.
func (h heldDeletions) inForce(found []problems.Problem, inEtcd *fleet.Table) []problems.Problem {
	if len(h.keys) == 0 {
		return found
	}
	found = slices.DeleteFunc(found, func(p problems.Problem) bool { return h.explains(p, inEtcd) })
	missing := map[string][]fleet.Kind{
		reasons.StoreEmpty:           {fleet.KindModel},
		reasons.NoModel:              {fleet.KindModel},
		reasons.NoColo:               {fleet.KindColo},
		reasons.ModelWithoutEndpoint: {fleet.KindEndpoint, fleet.KindColo},
	}
	for i, p := range found {
		if slices.ContainsFunc(h.keys, func(key string) bool { return slices.Contains(missing[p.Kind], change.KindIn(key)) }) {
			found[i].Effect = "none while nodes hold the deletions back; once they are confirmed: " + p.Effect
		}
	}
	return found
}

// explains reports whether a reference leads nowhere in etcd, and at the nodes to a document whose deletion they hold back.
func (h heldDeletions) explains(p problems.Problem, inEtcd *fleet.Table) bool {
	return p.Kind == reasons.ReferenceDangling && slices.ContainsFunc(inEtcd.Dangling(), func(d fleet.Dangling) bool {
		if d.Document != p.Subject || !strings.Contains(p.Text, d.Reason) {
			return false
		}
		return slices.ContainsFunc(h.keys, func(key string) bool {
			return key == d.Missing.Key(d.Value) || change.KindIn(key) == d.Missing && d.Field == "pool" // of the pool of any model
		})
	})
}

func (h heldDeletions) String() string {
	return fmt.Sprintf("%s held back by %s: %s%s", count(len(h.keys), "deletion"), firstOf(h.nodes), firstOf(h.keys), h.ways)
}
