package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/problems"
	"colonnade/reasons"
)

// review says what a change does to a fleet.
type review struct {
	lost  []string           // models that are served before and not after, without those that are deleted
	added []problems.Problem // those that the fleet has after and not before
	held  string             // why nodes do not carry out the deletions without a confirmation; empty if they do
}

// newReview compares the documents before a change with those after it. A process whose documents are in files has others too: of a kind
// of which the files have none, it may have them all.
func newReview(before []etcd.Stored, e etcd.Edit, inFiles bool) review {
	next := after(before, e)
	var unseen []fleet.Kind
	for _, kind := range []fleet.Kind{fleet.KindColo, fleet.KindEndpoint, fleet.KindModel, fleet.KindAccount, fleet.KindAPIKey} {
		ofKind := func(d etcd.Stored) bool { return kindIn(d.Key) == kind }
		if inFiles && !slices.ContainsFunc(before, ofKind) && !slices.ContainsFunc(next, ofKind) {
			unseen = append(unseen, kind)
		}
	}
	r := newOutlook(before, unseen).until(newOutlook(next, unseen), e)
	if !inFiles { // a process that reads files carries out each deletion
		r.held = heldBack(after(before, etcd.Edit{Put: e.Put}), e.Delete)
	}
	return r
}

// outlook is a fleet by its documents, and what is wrong with it.
type outlook struct {
	table    *fleet.Table
	problems []problems.Problem
}

func newOutlook(docs []etcd.Stored, unseen []fleet.Kind) outlook {
	set, scope := document.NewSet(), problems.Scope{Unseen: unseen}
	for _, d := range etcd.InCreationOrder(docs) {
		if isRecordKey(d.Key) {
			continue
		}
		if d.PutInto(set) != nil {
			scope.Rejected = append(scope.Rejected, d.Key)
		}
	}
	table := set.Table()
	return outlook{table: table, problems: problems.OfTable(table, scope)}
}

// until compares a fleet with itself after a change.
func (o outlook) until(next outlook, e etcd.Edit) (r review) {
	for _, p := range next.problems {
		known := func(old problems.Problem) bool {
			return old.Kind == p.Kind && old.Subject == p.Subject && old.Text == p.Text
		}
		if !slices.ContainsFunc(o.problems, known) {
			r.added = append(r.added, p)
		}
	}
	for _, m := range o.table.Models() {
		if key := fleet.KindModel.Key(m.Name); o.serves(m) && !next.serves(m) && !slices.Contains(e.Delete, key) {
			r.lost = append(r.lost, m.Name)
		}
	}
	return r
}

// kindIn returns the kind in a document's key.
func kindIn(key string) fleet.Kind {
	kind, _, _ := strings.Cut(key, "/")
	return fleet.Kind(kind)
}

// serves reports whether nothing in the documents keeps a model from being served.
func (o outlook) serves(m *fleet.Model) bool {
	return !slices.ContainsFunc(o.problems, func(p problems.Problem) bool {
		switch p.Kind {
		case reasons.StoreEmpty, reasons.NoModel, reasons.NoColo:
			return p.Severity == problems.SeverityError
		case reasons.ModelWithoutEndpoint, reasons.ModelWithoutRoute:
			return p.Severity == problems.SeverityError && p.Subject == fleet.KindModel.Key(m.Name)
		}
		return false
	})
}

// refusal returns why the change needs -force; nil if it does not.
func (r *review) refusal() error {
	var why []string
	if len(r.lost) > 0 {
		why = append(why, fmt.Sprintf("it takes out of service: %s", firstOf(r.lost)))
	}
	if r.held != "" {
		why = append(why, "it deletes "+r.held)
	}
	if len(why) == 0 {
		return nil
	}
	return fmt.Errorf("refused, and nothing was changed: %s; correct the documents, or repeat this with -force if it is intended", command.Printable(strings.Join(why, ", and ")))
}

// print writes the problems that the change adds.
func (r *review) print(notes io.Writer) {
	for _, p := range r.added {
		text := p.Text
		if p.Effect != "" && p.Severity == problems.SeverityError {
			text += "; " + p.Effect
		}
		fmt.Fprintf(notes, "%s: %s\n", p.Severity, command.Printable(text))
	}
}
