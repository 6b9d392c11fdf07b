package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"colonnade/change"
	"colonnade/change/canary"
	"colonnade/colo"
	"colonnade/fleet"
	"colonnade/node"
	"colonnade/problems"
	"colonnade/reasons"
)

// Looks at the nodes are taken each canaryLooks part of a trial, within these bounds. The requests before are counted for a
// canaryBaseline part of it.
const (
	canaryLooks       = 30
	minCanaryInterval = 20 * time.Millisecond
	maxCanaryInterval = 2 * time.Second
	canaryBaseline    = 4
	maxCanaryBaseline = 30 * time.Second
	// missedLooks is how often in a row a node may not be asked until it counts as ended.
	missedLooks = 3
)

// canaryFleet looks at the nodes of a fleet during a trial.
type canaryFleet struct {
	poller             *poller
	canary             string // key of the node's document
	interval, baseline time.Duration
	before             map[string]canary.Counts // by the key of the node's document
	first              fleetLook                // of the baseline
}

func newCanaryFleet(p *poller, trial time.Duration) *canaryFleet {
	p.dialed = false
	return &canaryFleet{
		poller: p, interval: min(max(trial/canaryLooks, minCanaryInterval), maxCanaryInterval), baseline: min(trial/canaryBaseline, maxCanaryBaseline),
		before: map[string]canary.Counts{},
	}
}

func (f *canaryFleet) close() { f.poller.close() }

// nodeLook is a node at a time.
type nodeLook struct {
	nodeState
	counts canary.Counts
	err    error // why it cannot be asked
}

// fleetLook is a fleet at a time.
type fleetLook struct{ nodes map[string]*nodeLook }

// look asks all nodes.
func (f *canaryFleet) look(ctx context.Context) (fleetLook, error) {
	state, err := f.poller.poll(ctx)
	if err != nil {
		return fleetLook{}, err
	}
	l := fleetLook{nodes: map[string]*nodeLook{}}
	var asked sync.WaitGroup
	for _, n := range state.Nodes {
		look := &nodeLook{nodeState: n}
		l.nodes[n.Document] = look
		asked.Go(func() { f.count(ctx, look) })
	}
	asked.Wait()
	return l, ctx.Err()
}

// lookFor looks, again as often as a node may miss looks, until the node with this name or key answers, or is not there.
func (f *canaryFleet) lookFor(ctx context.Context, name string) (l fleetLook, err error) {
	for range missedLooks {
		if l, err = f.look(ctx); err != nil {
			break
		}
		if n, missing := l.find(name); missing != nil || n.err == nil {
			break
		}
	}
	return l, err
}

// count reads the counts of a node.
func (f *canaryFleet) count(ctx context.Context, n *nodeLook) {
	if n.Config == nil {
		n.err = errors.New(n.unreachable())
		return
	}
	status, page, err := f.poller.reader.get(ctx, n.Admin, "/metrics")
	if err == nil && status != 200 {
		err = fmt.Errorf("its page /metrics has the status %d", status)
	}
	if err == nil {
		n.counts, err = canary.Read(string(page))
	}
	n.err = err
}

// configOf asks a node for the state of its documents.
func (f *canaryFleet) configOf(ctx context.Context, n *nodeLook) (c node.ConfigState, err error) {
	err = f.poller.reader.readJSON(ctx, n.Admin, "/debug/config", &c)
	return c, err
}

// poolsOf asks a colo server for its pools.
func (f *canaryFleet) poolsOf(ctx context.Context, n *nodeLook) (pools []colo.PoolState, err error) {
	err = f.poller.reader.readJSON(ctx, n.Admin, "/debug/pools?accounts=0", &pools)
	return pools, err
}

// find returns the node of a name, or of the key of its document. Names of nodes may be those of several.
func (l fleetLook) find(name string) (*nodeLook, error) {
	if n, ok := l.nodes[name]; ok {
		return n, nil
	}
	var found, all []string
	for key, n := range l.nodes {
		all = append(all, key)
		if n.Node == name {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	slices.Sort(all)
	switch {
	case len(found) == 1:
		return l.nodes[found[0]], nil
	case len(found) > 1:
		return nil, fmt.Errorf("-canary %s: several nodes have this name: %s; give one of these", name, strings.Join(found, ", "))
	case len(all) == 0:
		return nil, fmt.Errorf("-canary %s: no node is registered", name)
	}
	return nil, fmt.Errorf("-canary %s: no such node is registered; there are %s", name, firstOf(all))
}

// setBaseline takes what the nodes have counted between two looks.
func (f *canaryFleet) setBaseline(first, last fleetLook) error {
	if n := last.nodes[f.canary]; n == nil || n.err != nil {
		return fmt.Errorf("nothing was changed: %s has ended, or cannot be asked any more", f.canary)
	}
	f.first = last
	for key, n := range last.nodes {
		if earlier := first.nodes[key]; n.err == nil && earlier != nil && earlier.err == nil && !n.counts.Restarted(earlier.counts) {
			f.before[key] = n.counts.Since(earlier.counts)
		}
	}
	return nil
}

// canaryWatch compares nodes with how they were at its beginning.
type canaryWatch struct {
	fleet    *canaryFleet
	start    fleetLook
	revision int64 // of the staged change; 0 = all nodes have it
	expected []problems.Problem
	missed   map[string]int // looks in a row, by node
}

// watch begins to watch.
func (f *canaryFleet) watch(ctx context.Context, revision int64, r *change.Review) (*canaryWatch, error) {
	start, err := f.lookFor(ctx, f.canary)
	return &canaryWatch{fleet: f, start: start, revision: revision, expected: r.Added, missed: map[string]int{}}, err
}

// canary looks at the node with the staged change, and returns what has got worse there; empty if nothing has.
func (w *canaryWatch) canary(ctx context.Context) (e canary.Evidence, worse string, err error) {
	now, err := w.fleet.look(ctx)
	if err != nil {
		return e, "", err
	}
	own := w.fleet.canary
	e.Before = w.fleet.before[own]
	for key, n := range now.nodes {
		counted, ok := w.since(key, n)
		switch {
		case !ok:
		case key == own:
			e.Now = counted
		case n.Role == now.role(own):
			e.Peers = e.Peers.And(counted)
		}
	}
	if worse = w.faults(own, now); worse != "" {
		return e, worse, nil
	}
	if n := now.nodes[own]; n.err == nil && (n.Config.Staged == nil || n.Config.Staged.Revision != w.revision) {
		return e, "the node has withdrawn it: its lease has expired, or the node does not hear from etcd", nil
	}
	if r, ok := e.Risen(); ok {
		return e, r.String(), nil
	}
	return e, "", nil
}

// role returns the role of a node; empty if it is gone.
func (l fleetLook) role(key string) string {
	if n := l.nodes[key]; n != nil {
		return n.Role
	}
	return "gone"
}

// since returns what a node has counted since the watch began.
func (w *canaryWatch) since(key string, n *nodeLook) (canary.Counts, bool) {
	start := w.start.nodes[key]
	if start == nil || start.err != nil || n.err != nil || n.counts.Restarted(start.counts) {
		return canary.Counts{}, false
	}
	return n.counts.Since(start.counts), true
}

// all looks at all nodes, and returns the requests of all together, and what has got worse at one of them. late says that each node must have the
// change by now.
func (w *canaryWatch) all(ctx context.Context, revision int64, late bool) (sum canary.Evidence, worse string, err error) {
	now, err := w.fleet.look(ctx)
	if err != nil {
		return sum, "", err
	}
	for _, key := range slices.Sorted(maps.Keys(w.start.nodes)) {
		if worse := w.faults(key, now); worse != "" {
			return sum, key + ": " + worse, nil
		}
		n := now.nodes[key]
		counted, ok := w.since(key, n)
		if !ok {
			continue
		}
		if late && n.Config.Revision < revision {
			return sum, fmt.Sprintf("%s does not have it after %s: it follows etcd up to revision %d only", key, canaryTakeUp, n.Config.Revision), nil
		}
		e := canary.Evidence{Now: counted, Before: w.fleet.before[key], Nodes: len(w.start.nodes)}
		sum.Now, sum.Before = sum.Now.And(e.Now), sum.Before.And(e.Before)
		if r, ok := e.Risen(); ok {
			return sum, key + ": " + r.String(), nil
		}
	}
	if r, ok := sum.Risen(); ok {
		return sum, "all nodes: " + r.String(), nil
	}
	return sum, "", nil
}

// faults returns what is wrong with a node that was not before; empty if nothing is. A node that could not be asked before is not judged.
func (w *canaryWatch) faults(key string, now fleetLook) string {
	n, start := now.nodes[key], w.start.nodes[key]
	if start == nil || start.err != nil {
		return ""
	}
	if n == nil || n.err != nil {
		w.missed[key]++
		if w.missed[key] < missedLooks {
			return ""
		}
		if n == nil {
			return "the node has ended: it is not registered any more"
		}
		return fmt.Sprintf("the node cannot be asked any more: %v", n.err)
	}
	w.missed[key] = 0
	if n.counts.Restarted(start.counts) {
		return "the node has restarted"
	}
	base := w.fleet.first.nodes[key]
	if base == nil || base.Config == nil {
		base = start
	}
	for _, r := range n.Config.Rejected {
		known := func(b fleet.Rejection) bool { return b.Key == r.Key }
		if !slices.ContainsFunc(base.Config.Rejected, known) {
			return fmt.Sprintf("the node rejects %s: %s", r.Key, r.Reason)
		}
	}
	if n.NotReady != "" && base.NotReady == "" && n.State != fleet.StateDraining {
		return "the node is not ready any more: " + n.NotReady
	}
	return w.newProblem(key, base, now)
}

// newProblem returns an error that a node reports and has not reported before, that the review has not announced, and that no node of
// its role without the change reports. All nodes hold back the same deletions, which are a reason to stop nevertheless.
func (w *canaryWatch) newProblem(key string, base *nodeLook, now fleetLook) string {
	n := now.nodes[key]
	for _, p := range n.Config.Problems {
		same := func(other problems.Problem) bool {
			return other.Kind == p.Kind && (other.Subject == p.Subject || p.Subject == key)
		}
		if p.Severity != problems.SeverityError || p.Kind == reasons.NodeNotReady || slices.ContainsFunc(base.Config.Problems, same) || slices.ContainsFunc(w.expected, same) {
			continue
		}
		if w.revision == 0 || p.Kind == reasons.DeletionsHeld || !now.peersReport(key, same) {
			return "a problem has appeared: " + p.Text
		}
	}
	return ""
}

// peersReport reports whether another node of the same role has a problem.
func (l fleetLook) peersReport(key string, same func(problems.Problem) bool) bool {
	for other, n := range l.nodes {
		if other != key && n.Role == l.role(key) && n.Config != nil && slices.ContainsFunc(n.Config.Problems, same) {
			return true
		}
	}
	return false
}

// evidenceText describes the requests of a trial so far.
func evidenceText(e canary.Evidence) string {
	text := fmt.Sprintf("%s, %d refused, %d failed", count(e.Now.Requests, "request"), e.Now.Refused, e.Now.Failed)
	if e.Now.GaveUp > 0 {
		text += fmt.Sprintf(", %d %s", e.Now.GaveUp, canary.GaveUp)
	}
	text += fmt.Sprintf("; before: %d of %d refused or failed", e.Before.Refused+e.Before.Failed, e.Before.Requests)
	if e.Peers.Requests > 0 {
		text += fmt.Sprintf("; peers: %d of %d", e.Peers.Refused+e.Peers.Failed, e.Peers.Requests)
	}
	return text
}
