package node

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"colonnade/discovery/etcd"
)

// tasks are the background tasks of a node. Their context outlives the drain: when one task fails, the node has to
// stop, but the others continue until it has drained.
type tasks struct {
	group  *errgroup.Group
	ctx    context.Context // of the tasks
	cancel context.CancelFunc

	stopping context.Context // done once the node has to stop
	stop     context.CancelFunc

	superseded context.Context // done once another node holds this one's key in etcd
	supersede  context.CancelFunc
}

// newTasks returns the tasks of a node that has to stop when ctx is done.
func newTasks(ctx context.Context) tasks {
	t := tasks{group: new(errgroup.Group)}
	t.ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	t.stopping, t.stop = context.WithCancel(ctx)
	t.superseded, t.supersede = context.WithCancel(t.ctx)
	return t
}

// Go starts a task. If it fails, the node has to stop.
func (t tasks) Go(task func() error) {
	t.group.Go(func() error {
		err := task()
		var taken *etcd.TakenError
		if errors.As(err, &taken) {
			t.supersede()
		}
		if err != nil {
			t.stop()
		}
		return err
	})
}

// Wait waits for all tasks and returns the first error.
func (t tasks) Wait() error { return t.group.Wait() }

// end cancels all tasks.
func (t tasks) end() {
	t.cancel()
	t.stop()
	t.supersede()
}

// drainContext bounds the time that running requests still have. It ends early once another node holds this one's key:
// both would grant the same slots.
func (t tasks) drainContext(drain time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.superseded, drain)
}
