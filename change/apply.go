package change

import (
	"context"
	"errors"

	"colonnade/discovery/etcd"
)

// Plan is a change that is decided, reviewed and then carried out.
type Plan struct {
	Decide    Decision
	Force     bool // also if the review refuses it; deletions that nodes would hold back are confirmed
	DryRun    bool // change nothing
	NoConfirm bool // never confirm deletions, so nodes may hold back those of this change
	// CheckConfirm is called before a change of etcd that confirms the deletion of some keys: it is to return an error if that would also
	// confirm others, which nodes hold back now. nil = not checked.
	CheckConfirm func(ctx context.Context, deleted []string) error
}

// Outcome is what a Plan came to, or with an error, how far it came.
type Outcome struct {
	Before []etcd.Stored // sorted by key
	Edit   etcd.Edit
	Review Review
	Done   Done // empty for a dry run
}

// errDryRun ends a dry run before anything is changed.
var errDryRun = errors.New("nothing was changed, since this is a dry run")

// Apply decides a change, reviews the fleet as it would be, and carries the change out. The error is a *RefusedError if the change has to
// be forced, also of a dry run.
func (d *Documents) Apply(ctx context.Context, p Plan) (o Outcome, err error) {
	o.Done, err = d.Edit(ctx, func(ctx context.Context, there []etcd.Stored) (etcd.Edit, error) {
		var err error
		if o.Edit, err = p.Decide(ctx, there); err != nil {
			return o.Edit, err
		}
		o.Before, o.Review = there, NewReview(there, o.Edit, d.InFiles())
		o.Edit.Confirm = o.Review.Held != "" && !p.NoConfirm
		return o.Edit, p.check(ctx, &o)
	})
	if errors.Is(err, errDryRun) {
		o.Done, err = Done{}, nil
	}
	o.noteMeaning()
	return o, err
}

// noteMeaning notes which of the documents that were put mean what they meant before.
func (o *Outcome) noteMeaning() {
	different := map[string]bool{}
	for _, d := range Differences(o.Before, o.Edit) {
		different[d.Key] = true
	}
	for i := range o.Done.Applied {
		a := &o.Done.Applied[i]
		a.SameMeaning = !a.Created && !a.Unchanged && !different[a.Key]
	}
}

// Prepare decides and reviews a change of documents in etcd as Apply does, and carries nothing out. The snapshot has the documents by which it
// was decided, for [etcd.Writer.Commit].
func (d *Documents) Prepare(ctx context.Context, p Plan) (o Outcome, s etcd.Snapshot, err error) {
	if s, err = d.Writer().Snapshot(ctx); err != nil {
		return o, s, err
	}
	if o.Edit, err = p.Decide(ctx, s.Documents); err != nil {
		return o, s, err
	}
	o.Before, o.Review = s.Documents, NewReview(s.Documents, o.Edit, false)
	o.Edit.Confirm = o.Review.Held != "" && !p.NoConfirm
	return o, s, p.check(ctx, &o)
}

// check returns an error unless the change may be carried out.
func (p *Plan) check(ctx context.Context, o *Outcome) error {
	if err := o.Review.Refusal(); err != nil && !p.Force {
		return err
	}
	if o.Edit.Confirm && p.CheckConfirm != nil {
		if err := p.CheckConfirm(ctx, o.Edit.Delete); err != nil {
			return err
		}
	}
	if p.DryRun {
		return errDryRun
	}
	return nil
}
