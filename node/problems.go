package node

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"colonnade/analytics/metrics"
	"colonnade/fleet"
	"colonnade/internal/wording"
	"colonnade/problems"
	"colonnade/reasons"
)

// problems returns everything that is wrong as far as this node knows: what its state and its table show, and what only it knows. The pages,
// the readiness and the metric colonnade_problems have it from here.
func (r *runtime) problems() []problems.Problem {
	l := &problems.List{}
	c := r.configState()
	c.AddDocuments(l, r.name())
	c.AddProblems(l, r.document(), r.name(), time.Now())
	if n := len(c.PendingDeletions); n > 0 {
		l.Errorf(reasons.DeletionsHeld, r.document(), "%s: %s held back: %s", r.name(), wording.Count(n, "deletion"), wording.FirstOf(c.PendingDeletions))
	}
	if !r.starting() {
		colo := ""
		if r.siblings != nil {
			colo = r.siblings.colo
		}
		l.Add(r.tableProblems.of(r.watcher.Table(), colo, r.unseen)...)
	}
	if r.entry != nil {
		r.addEntry(l)
	}
	r.addTokens(l)
	if err := r.notReady(); err != nil {
		l.Errorf(reasons.NodeNotReady, r.document(), "%s: is not ready: %v", r.name(), err)
	}
	r.addDrain(l)
	if r.colo != nil {
		r.addPools(l)
		r.addModels(l)
		r.addEvents(l)
		r.addOrphans(l)
		l.Add(r.shared.problems()...)
	}
	return l.All()
}

// addDrain adds that an operator drains the node. If it is the last one, that is an error.
func (r *runtime) addDrain(l *problems.List) {
	d, effect := r.maintenance.draining(), ""
	if d == nil {
		return
	}
	add := l.Warnf
	if r.source == "" {
		if effect = r.effectOfLast(r.watcher.Table()); effect != "" {
			add = l.Errorf
		}
	}
	p := add(reasons.NodeDrained, r.document(), "%s: drains for %s, by %s", r.name(), wording.Brief(time.Since(d.Since)), cmp.Or(d.By, "an operator"))
	if effect != "" {
		p.Effect = effect
	}
}

// effectOfLast returns what the drain of this node does to clients if a table has no other active node like it; empty = it has one.
func (r *runtime) effectOfLast(t *fleet.Table) string {
	own := r.config.Node
	if r.siblings == nil {
		if slices.ContainsFunc(t.Entries(), func(e *fleet.EntryNode) bool { return e.Node != own && e.State != fleet.StateDraining }) {
			return ""
		}
		return effectOfLastEntry
	}
	colo := r.siblings.colo
	if slices.ContainsFunc(t.Registered(colo), func(s *fleet.Server) bool { return s.Node != own && s.State != fleet.StateDraining }) {
		return ""
	}
	return effectOfLastServer(colo)
}

// notReady returns why the node is not ready, unless another problem says so, or an operator has stopped it.
func (r *runtime) notReady() error {
	if r.ready == nil || r.maintenance.draining() != nil || r.entry != nil && r.entry.Draining() || r.colo != nil && r.colo.Draining() {
		return nil
	}
	if r.entry != nil {
		if _, all := r.entry.Disbelieving(); all {
			return nil
		}
	}
	return r.ready()
}

// document returns the key of the document that the node registers; empty = none.
func (r *runtime) document() string {
	switch {
	case r.source != "":
		return ""
	case r.siblings != nil:
		return fleet.KindServer.Key(r.siblings.colo, r.config.Node)
	}
	return fleet.KindEntry.Key(r.config.Node)
}

// name returns the name of the node in texts.
func (r *runtime) name() string { return cmp.Or(r.document(), r.config.Node) }

// tableProblems are the problems of the last table that was asked for: pages and metrics ask every second, and a table may be large. It is safe
// for concurrent use.
type tableProblems struct {
	mu    sync.Mutex // guards the fields below
	table *fleet.Table
	found []problems.Problem
}

func (p *tableProblems) of(t *fleet.Table, colo string, unseen []fleet.Kind) []problems.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.table == t {
		return p.found
	}
	scope := problems.Scope{Unseen: unseen, Colo: colo}
	for _, rejected := range t.Rejected {
		scope.Rejected = append(scope.Rejected, rejected.Key)
	}
	l := &problems.List{}
	l.Add(problems.OfTable(t, scope)...)
	if !slices.Contains(unseen, fleet.KindServer) {
		l.Add(problems.OfServers(t)...)
	}
	p.table, p.found = t, l.All()
	return p.found
}

// addTokens adds that tokens of the admin API are not in force.
func (r *runtime) addTokens(l *problems.List) {
	if r.tokens == nil {
		return
	}
	if err := r.tokens.Problem(); err != nil {
		l.Errorf(reasons.AdminTokensInvalid, r.document(), "%s: flag -admin-tokens: %v", r.name(), err)
	}
}

// addEntry adds what only an entry knows.
func (r *runtime) addEntry(l *problems.List) {
	document, name := r.document(), r.name()
	colos, all := r.entry.Disbelieving()
	for _, colo := range colos {
		if !all {
			l.Errorf(reasons.ColoDisbelieves, document, "%s: colo %s rejects its hop tokens", name, colo)
		}
	}
	if all {
		l.Errorf(reasons.EntryNotBelieved, document, "%s: every colo that answers rejects its hop tokens: %s", name, wording.FirstOf(colos))
	}
	if !r.starting() && r.entry.RefusesAll() {
		l.Errorf(reasons.NoAPIKey, document, "%s: there is no API key and no issuer of tokens, and it was started without -open", name)
	}
}

// addPools adds the pools of a colo server that have engines, none of which is up.
func (r *runtime) addPools(l *problems.List) {
	for _, p := range r.colo.PoolsDown() {
		if r.siblings != nil && !r.siblings.keeper.Home(p.Pool).Here {
			continue // the home knows
		}
		problem := l.Errorf(reasons.PoolDown, r.document(), "%s: pool %s: no engine is up: %s", r.name(), p.Pool, wording.FirstOf(p.Engines))
		if len(p.Models) > 0 && r.source != "" {
			problem.Effect = fmt.Sprintf("every request for %s gets 503", wording.FirstOf(p.Models))
		} else if len(p.Models) > 0 {
			problem.Effect = fmt.Sprintf("requests for %s get 503, unless another colo has the pool", wording.FirstOf(p.Models))
		}
	}
}

// addModels adds the models that engines of a colo server lack.
func (r *runtime) addModels(l *problems.List) {
	for _, m := range r.colo.ModelsWithheld() {
		if r.siblings != nil && !r.siblings.keeper.Home(m.Pool).Here {
			continue // the home knows
		}
		document := fleet.KindModel.Key(m.Model)
		if m.Served {
			l.Warnf(reasons.EngineLacksModel, document, "%s: pool %s: %s is missing on %s: %s", r.name(), m.Pool, document, wording.Count(len(m.Engines), "engine"), wording.FirstOf(m.Engines))
			continue
		}
		problem := l.Errorf(reasons.EngineLacksModel, document, "%s: pool %s: no engine that is up has %s: %s", r.name(), m.Pool, document, wording.FirstOf(m.Engines))
		problem.Effect = fmt.Sprintf("requests for %s get 503 %s, unless another colo has it", m.Model, reasons.ModelNotLoaded)
		if r.source != "" {
			problem.Effect = fmt.Sprintf("every request for %s gets 503 %s", m.Model, reasons.ModelNotLoaded)
		}
	}
}

// addEvents adds the engines whose events cannot be read. Only the server that may grant their slots reads them.
func (r *runtime) addEvents(l *problems.List) {
	for _, p := range r.colo.EventsUnread() {
		l.Warnf(reasons.EngineEventsUnread, fleet.KindPool.Key(p.Pool), "%s: pool %s: the events of %s cannot be read: %s", r.name(), p.Pool,
			wording.Count(len(p.Engines), "engine"), wording.FirstOf(p.Engines))
	}
}

// addOrphans adds the records of processes that are not registered which name engines that no endpoint has.
func (r *runtime) addOrphans(l *problems.List) {
	if r.siblings == nil {
		return
	}
	for _, u := range r.siblings.keeper.UnknownEngines() {
		record := fleet.KindRecord.Key(r.siblings.colo, u.Process.Node, u.Process.Boot)
		problem := l.Warnf(reasons.RecordOrphaned, record, "%s: its process is not registered, and no endpoint has %s that it names: %s", record,
			wording.Count(len(u.URLs), "engine"), wording.FirstOf(u.URLs))
		problem.Effect = "none: no server grants there; what the process has left running is counted nowhere"
		problem.Action = "if the engines still run, apply their endpoints again, or stop them; the record goes when its process has ended for certain"
	}
}

// readyLines returns the problems of severity error for the page of the readiness, which has the reason and the losses itself.
func (r *runtime) readyLines() []string {
	var lines []string
	for _, p := range r.problems() {
		if p.Severity == problems.SeverityError && p.Kind != reasons.EventsLost && p.Kind != reasons.NodeNotReady {
			lines = append(lines, fmt.Sprintf("%s: %s; effect: %s; action: %s", p.Kind, p.Text, p.Effect, p.Action))
		}
	}
	return lines
}

// countProblems returns the number of problems of each kind and severity, also of those of which there are none.
func (r *runtime) countProblems() map[metrics.ProblemLabels]int {
	counts := map[metrics.ProblemLabels]int{}
	for _, known := range reasons.Problems() {
		for _, severity := range [...]problems.Severity{problems.SeverityError, problems.SeverityWarning} {
			counts[metrics.ProblemLabels{Kind: known.Kind, Severity: string(severity)}] = 0
		}
	}
	for _, p := range r.problems() {
		counts[metrics.ProblemLabels{Kind: p.Kind, Severity: string(p.Severity)}]++
	}
	return counts
}
