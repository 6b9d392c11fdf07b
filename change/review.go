package change

import (
	"fmt"
	"slices"
	"strings"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/wording"
	"colonnade/problems"
	"colonnade/reasons"
)

// Review says what a change does to a fleet.
type Review struct {
	Lost  []string           // models that are served before and not after, without those that are deleted
	Added []problems.Problem // those that the fleet has after and not before
	Held  string             // why nodes do not carry out the deletions without a confirmation; empty if they do
}

// NewReview compares the documents before a change with those after it. A process whose documents are in files has others too: of a kind
// of which the files have none, it may have them all.
func NewReview(before []etcd.Stored, e etcd.Edit, inFiles bool) Review {
	next := After(before, e)
	var unseen []fleet.Kind
	for _, kind := range []fleet.Kind{fleet.KindColo, fleet.KindEndpoint, fleet.KindModel, fleet.KindAccount, fleet.KindAPIKey} {
		ofKind := func(d etcd.Stored) bool { return KindIn(d.Key) == kind }
		if inFiles && !slices.ContainsFunc(before, ofKind) && !slices.ContainsFunc(next, ofKind) {
			unseen = append(unseen, kind)
		}
	}
	r := newOutlook(before, unseen).until(newOutlook(next, unseen), e)
	if !inFiles { // a process that reads files carries out each deletion
		r.Held = HeldBack(After(before, etcd.Edit{Put: e.Put}), e.Delete)
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
		if IsRecordKey(d.Key) {
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
func (o outlook) until(next outlook, e etcd.Edit) (r Review) {
	for _, p := range next.problems {
		known := func(old problems.Problem) bool {
			return old.Kind == p.Kind && old.Subject == p.Subject && old.Text == p.Text
		}
		if !slices.ContainsFunc(o.problems, known) {
			r.Added = append(r.Added, p)
		}
	}
	for _, m := range o.table.Models() {
		if key := fleet.KindModel.Key(m.Name); o.serves(m) && !next.serves(m) && !slices.Contains(e.Delete, key) {
			r.Lost = append(r.Lost, m.Name)
		}
	}
	return r
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

// RefusedError says that a change was refused, and that nothing was changed. A change that is forced is carried out nevertheless.
type RefusedError struct{ Reasons string }

func (e *RefusedError) Error() string { return "refused, and nothing was changed: " + e.Reasons }

// Refusal returns a *RefusedError if the change has to be forced, and nil if not.
func (r *Review) Refusal() error {
	var why []string
	if len(r.Lost) > 0 {
		why = append(why, fmt.Sprintf("it takes out of service: %s", wording.FirstOf(r.Lost)))
	}
	if r.Held != "" {
		why = append(why, "it deletes "+r.Held)
	}
	if len(why) == 0 {
		return nil
	}
	return &RefusedError{Reasons: strings.Join(why, ", and ")}
}

// HeldBack returns why nodes hold back the deletion of some documents; it is empty if they do not.
func HeldBack(docs []etcd.Stored, deleted []string) string {
	var most, reasons []string
	for _, g := range etcd.HeldBack(slices.DeleteFunc(slices.Clone(docs), func(d etcd.Stored) bool { return IsRecordKey(d.Key) }), deleted) {
		switch g.Reason {
		case etcd.HoldMost:
			most = append(most, g.Group)
		case etcd.HoldLastEndpoint:
			reasons = append(reasons, "the last endpoint of a pool that a model names: "+wording.FirstOf(g.Keys))
		case etcd.HoldLastPool:
			reasons = append(reasons, "the last pool, while a model names it: "+wording.FirstOf(g.Keys))
		default:
			reasons = append(reasons, "the last of all "+g.Group+": "+wording.FirstOf(g.Keys))
		}
	}
	if len(most) > 0 {
		reasons = append([]string{"more than half of all " + strings.Join(most, " and ")}, reasons...)
	}
	return strings.Join(reasons, "; and ")
}
