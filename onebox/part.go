package onebox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// End ends one node as SIGTERM does, and returns its error once it has ended. The rest of the fleet continues.
func (f *Fleet) End(node string) error {
	p, ok := f.parts[node]
	if !ok {
		return fmt.Errorf("cannot end %s: there is no such node", node)
	}
	return p.end()
}

// part is a node, an engine or a store that runs until it is ended.
type part struct {
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // valid once ended is closed
}

// end ends the part, waits, and returns its error. It may be called more than once.
func (p *part) end() error {
	p.cancel()
	<-p.ended
	return p.err
}

// run starts one part and returns once it has called ready. If the part ends by itself, the fleet ends too.
func (b *allInOne) run(name string, run func(ctx context.Context, ready func()) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{cancel: cancel, ended: make(chan struct{})}
	ready := make(chan struct{})
	go func() {
		defer close(p.ended)
		p.err = run(ctx, func() { close(ready) })
		select {
		case <-ready:
			if ctx.Err() == nil {
				b.fail(fmt.Errorf("a part of the fleet ended: %w", cmp.Or(p.err, errEnded)))
			}
		default: // run below returns the error
		}
	}()
	select {
	case <-ready:
		b.fleet.parts[name] = p
		b.teardown = append(b.teardown, p.end)
		return nil
	case <-p.ended:
		cancel()
		return cmp.Or(p.err, errEnded)
	}
}

var errEnded = errors.New("it ended without a cause")
