package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"colonnade/change"
	"colonnade/change/canary"
	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/ctxtime"
)

// commit carries the change out for all nodes, in place of the staged one, unless others have changed documents since it was decided.
func (t *canaryTrial) commit(ctx context.Context, kept *keptStage) (etcd.Change, error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout) // half of it would not be known
	defer cancel()
	e := t.plan.Edit
	if e.Confirm { // deletions of others since the review would be confirmed with these
		if err := checkHeld(bounded, t.docs.Client, e.Delete, t.cmd.ErrWriter); err != nil {
			return etcd.Change{}, fmt.Errorf("%s, and not applied: %w", t.takeBack(kept), err)
		}
	}
	e.Stage = kept.Stage
	all, err := t.docs.Writer().Commit(bounded, t.read, e)
	var done etcd.Change
	switch {
	case errors.Is(err, etcd.ErrChanged):
		return done, fmt.Errorf("%s, and not applied: %s; run this again, which tries it with these", t.takeBack(kept), t.othersChanged(bounded))
	case errors.Is(err, etcd.ErrStageLost):
		return done, fmt.Errorf("not applied: %w: its lease has expired, or it was deleted", err)
	case len(all) > 0:
		done = all[0]
	default:
		if done, err = t.settled(ctx, kept, err); err != nil {
			return done, err
		}
	}
	if err != nil { // it is applied, and its confirmation has no number
		t.progress.note(err.Error())
	}
	t.progress.note(fmt.Sprintf("applied to all nodes at revision %d; to undo it: colonnade config rollback %d", done.Revision, done.Revision-1))
	return done, nil
}

// othersChanged says what others have changed since the change was decided.
func (t *canaryTrial) othersChanged(ctx context.Context) string {
	now, err := t.docs.Writer().Snapshot(ctx)
	if err != nil {
		return "others have changed documents meanwhile"
	}
	var keys []string
	for _, d := range now.Documents {
		if d.Revision > t.read.Revision && !d.Leased && !change.IsRecordKey(d.Key) {
			keys = append(keys, d.Key)
		}
	}
	for _, d := range t.read.Documents {
		if _, there := change.WithKey(now.Documents, d.Key); !there && !d.Leased && !change.IsRecordKey(d.Key) {
			keys = append(keys, d.Key)
		}
	}
	text := "others have changed documents meanwhile: " + firstOf(keys)
	if now.Authored > t.read.Revision {
		text += fmt.Sprintf(" (revision %d by %s)", now.Authored, now.Author)
	}
	return command.Printable(text)
}

// followAll watches all nodes after the commit, and rolls the change back if one of them gets worse.
func (t *canaryTrial) followAll(ctx context.Context, done etcd.Change) error {
	worse, err := t.watchAll(ctx, done.Revision)
	if worse == "" && err == nil {
		t.progress.end()
		for _, d := range done.Documents {
			fmt.Fprintln(t.cmd.Writer, d.Action+" "+d.Key)
		}
		return nil
	}
	reason := cause(ctx, errors.Join(err, textError(worse)))
	skipped, held, err := t.rollBack(context.WithoutCancel(ctx), done)
	if err != nil {
		return fmt.Errorf("%s; and the change cannot be rolled back: %w; it is in force: colonnade config rollback %d", command.Printable(reason.Error()), err, done.Revision-1)
	}
	text := "the change was rolled back at all nodes: " + command.Printable(reason.Error())
	if len(skipped) > 0 {
		text += "; left as they are, since others have changed them meanwhile: " + firstOf(skipped)
	}
	if held != nil {
		text += "; nodes may hold back what it deletes, since that was not confirmed (" + command.Printable(held.Error()) + ")"
	}
	return errors.New(text)
}

// watchAll watches all nodes, and returns what has got worse; empty if nothing has.
func (t *canaryTrial) watchAll(ctx context.Context, revision int64) (worse string, err error) {
	watch, err := t.fleet.watch(ctx, 0, &t.plan.Review)
	if err != nil {
		return "", err
	}
	var sum canary.Evidence
	for began := time.Now(); time.Since(began) < t.length; {
		if !ctxtime.Sleep(ctx, t.fleet.interval) {
			return "", errInterrupted
		}
		all, worse, err := watch.all(ctx, revision, time.Since(began) > canaryTakeUp)
		if err != nil || worse != "" {
			return worse, err
		}
		sum = all
		t.progress.show(fmt.Sprintf("all nodes  %s of %s  %s", time.Since(began).Round(time.Second), t.length, evidenceText(all)))
	}
	if !sum.Enough() {
		t.progress.note(fmt.Sprintf("not judged at all nodes, since there were only %s; keep an eye on colonnade status", fewText(sum)))
	}
	return "", nil
}

// rollBack puts what the change has changed back as it was, but for documents that others have changed since, whose keys it returns. held says why
// its deletions were not confirmed; nil if they were, or if nodes do not hold them back.
func (t *canaryTrial) rollBack(ctx context.Context, done etcd.Change) (skipped []string, held, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	docs := *t.docs
	docs.Author.Command += " (rolled back by itself)"
	var own []string // what may be held back without being the deletion of others
	plan := change.Plan{Force: true, Decide: func(_ context.Context, now []etcd.Stored) (e etcd.Edit, err error) {
		e, skipped = reverse(done, now)
		own = slices.Clone(e.Delete)
		for _, d := range e.Put {
			own = append(own, d.Key)
		}
		return e, nil
	}}
	plan.CheckConfirm = func(ctx context.Context, _ []string) error {
		held = checkHeld(ctx, t.docs.Client, own, t.cmd.ErrWriter)
		return held
	}
	if _, err = docs.Apply(ctx, plan); held == nil {
		return skipped, nil, err
	}
	plan.NoConfirm = true
	_, err = docs.Apply(ctx, plan)
	return skipped, held, err
}

// reverse returns the change that undoes another one, and the keys of documents that others have changed since.
func reverse(done etcd.Change, now []etcd.Stored) (e etcd.Edit, skipped []string) {
	for _, d := range done.Documents {
		current, there := change.WithKey(now, d.Key)
		untouched := there && current.Revision == done.Revision || !there && d.Action == etcd.ActionDeleted
		switch {
		case d.Key == string(fleet.KindDeletions):
		case !untouched:
			skipped = append(skipped, d.Key)
		case d.Action == etcd.ActionCreated:
			e.Delete = append(e.Delete, d.Key)
		default:
			e.Put = append(e.Put, document.Raw{Key: d.Key, Value: []byte(d.Old)})
		}
	}
	return e, skipped
}

// poolsOf returns the pools that a change is about, at a colo.
func poolsOf(before []etcd.Stored, e etcd.Edit, colo string) (pools []string) {
	changed := map[string]bool{}
	for _, d := range e.Put {
		changed[d.Key] = true
	}
	for _, key := range e.Delete {
		changed[key] = true
	}
	for _, docs := range [][]etcd.Stored{before, change.After(before, e)} {
		set := document.NewSet()
		for _, d := range docs {
			_ = d.PutInto(set) // what is not valid is about no pool
		}
		for key := range changed {
			switch noun := set.Noun(key).(type) {
			case *fleet.Pool:
				pools = append(pools, noun.Name)
			case *fleet.Model:
				pools = append(pools, noun.Pool)
			case *fleet.Endpoint:
				if noun.Colo == colo {
					pools = append(pools, noun.Pool)
				}
			}
		}
	}
	slices.Sort(pools)
	return slices.Compact(pools)
}
