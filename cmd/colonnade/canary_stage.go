package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"colonnade/change"
	"colonnade/discovery/etcd"
	"colonnade/internal/ctxtime"
)

// keptStage is a staged change whose lease is renewed.
type keptStage struct {
	*etcd.Stage
	ctx context.Context // ends with the lease, and then has why as its cause
	end func() error    // withdraws the change, once
}

// keepStage renews the lease of a staged change until its end.
func keepStage(ctx context.Context, stage *etcd.Stage) *keptStage {
	staged, lost := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() {
		if err := stage.Keep(staged); err != nil {
			lost(err)
		}
	})
	return &keptStage{Stage: stage, ctx: staged, end: sync.OnceValue(func() error {
		lost(nil)
		keeping.Wait()
		return stage.Withdraw(context.WithoutCancel(ctx))
	})}
}

// settle finds out whether a commit was carried out that has not been answered. First it withdraws the staged change, without which the commit
// cannot be carried out any more; then the history says whether it was, which ok returns. It asks until etcd answers; the error says that ctx has
// ended before.
func (t *canaryTrial) settle(ctx context.Context, stage *etcd.Stage) (done etcd.Change, ok bool, err error) {
	for asking := context.WithoutCancel(ctx); ; {
		if err = stage.Withdraw(asking); err == nil {
			if done, ok, err = t.committed(asking, stage); err == nil {
				return done, ok, nil
			}
		}
		if !ctxtime.Sleep(ctx, time.Second) {
			return etcd.Change{}, false, err
		}
	}
}

// committed finds the commit in the history, and whether the documents are as it has made them.
func (t *canaryTrial) committed(ctx context.Context, stage *etcd.Stage) (done etcd.Change, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	all, err := etcd.History(ctx, t.docs.Client, etcd.DefaultPrefix)
	if err != nil {
		return etcd.Change{}, false, err
	}
	for _, c := range all {
		if c.Revision > stage.Revision && t.isOwn(c) {
			t.fillOld(&c)
			return c, true, nil
		}
	}
	return etcd.Change{}, false, nil
}

// isOwn reports whether a change is by this command, and of the documents of the trial.
func (t *canaryTrial) isOwn(c etcd.Change) bool {
	own := t.docs.Author
	if c.User != own.User || c.Host != own.Host || c.Command != own.Command {
		return false
	}
	values := map[string]string{}
	for _, d := range t.plan.Edit.Put {
		values[d.Key] = string(d.Value)
	}
	for _, d := range c.Documents {
		if value, put := values[d.Key]; put && !c.Omitted && d.New != value || !put && d.Action != etcd.ActionDeleted {
			return false
		}
	}
	return true
}

// fillOld puts in the values before a change, which the history leaves out if they are large.
func (t *canaryTrial) fillOld(c *etcd.Change) {
	for i := range c.Documents {
		if d, there := change.WithKey(t.plan.Before, c.Documents[i].Key); there {
			c.Documents[i].Old = string(d.Value)
		}
	}
}

// settled goes on after a commit that has not been answered.
func (t *canaryTrial) settled(ctx context.Context, kept *keptStage, cause error) (etcd.Change, error) {
	t.progress.note(fmt.Sprintf("etcd has not answered whether the change is applied (%v); asking until it does", cause))
	done, ok, err := t.settle(ctx, kept.Stage)
	switch {
	case err != nil:
		return done, fmt.Errorf("%w; whether the change was applied is not known: see colonnade config history", errors.Join(cause, err))
	case !ok:
		return done, fmt.Errorf("the change was taken back from %s, and not applied: %w", t.node.name(), cause)
	}
	return done, nil
}
