package onebox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// End asks one node to end, as SIGTERM does, and returns how it has once it has. The fleet goes on without.
func (f *Fleet) End(node string) error {
	p, ok := f.parts[node]
	if !ok {
		return fmt.Errorf("cannot end %s: there is no such node", node)
	}
	return p.end()
}

// part is what runs until it is asked to end.
type part struct {
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // once ended is closed
}

// end asks the part to end, and returns how it has. It may be called again.
func (p *part) end() error {
	p.cancel()
	<-p.ended
	return p.err
}

// run starts one part and returns once it has called ready. If the part ends by itself, so does the fleet.
func (b *box) run(name string, run func(ctx context.Context, ready func()) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{cancel: cancel, ended: make(chan struct{})}
	ready := make(chan struct{})
	go func() {
		defer close(p.ended)
		p.err = run(ctx, func() { close(ready) })
		select {
		case <-ready:
			if ctx.Err() == nil {
				b.fail(fmt.Errorf("a part of the fleet has ended: %w", cmp.Or(p.err, errUnasked)))
			}
		default: // whoever waits for ready gets the error
		}
	}()
	select {
	case <-ready:
		b.fleet.parts[name] = p
		b.down = append(b.down, p.end)
		return nil
	case <-p.ended:
		cancel()
		return cmp.Or(p.err, errUnasked)
	}
}

var errUnasked = errors.New("it ended without being asked to")
