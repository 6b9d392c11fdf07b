package node

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"colonnade/discovery/etcd"
)

// background runs what goes on beside requests. Its context outlives the drain: when one part fails, the node is to
// end, and the others go on until it has drained.
type background struct {
	group   *errgroup.Group
	context context.Context // of the parts
	cancel  context.CancelFunc

	asked context.Context // ended once the node is to end
	ask   context.CancelFunc

	alone context.Context // ended once another node has this one's place in etcd
	yield context.CancelFunc
}

// newBackground returns one for a node that is to end with ctx.
func newBackground(ctx context.Context) background {
	b := background{group: new(errgroup.Group)}
	b.context, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	b.asked, b.ask = context.WithCancel(ctx)
	b.alone, b.yield = context.WithCancel(b.context)
	return b
}

// Go runs a part. If it fails, the node is to end.
func (b background) Go(part func() error) {
	b.group.Go(func() error {
		err := part()
		var taken *etcd.TakenError
		if errors.As(err, &taken) {
			b.yield()
		}
		if err != nil {
			b.ask()
		}
		return err
	})
}

// Wait waits for all parts, and returns the first error.
func (b background) Wait() error { return b.group.Wait() }

// stop ends the parts.
func (b background) stop() {
	b.cancel()
	b.ask()
	b.yield()
}

// taken says that another node has this one's place in etcd.
func (b background) taken() bool { return b.alone.Err() != nil }

// last is the time that running requests still have. It ends once another node serves in this one's place: what both
// grant would be granted twice.
func (b background) last(drain time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.alone, drain)
}
