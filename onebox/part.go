package onebox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// End ends one node as SIGTERM does, and returns its error once it has ended. The rest of the fleet continues.
func (f *Fleet) End(node string) error {
	p := f.part(node)
	if p == nil {
		return fmt.Errorf("cannot end %s: there is no such node", node)
	}
	return p.end()
}

// HasEnded reports whether a node that the fleet has started has ended.
func (f *Fleet) HasEnded(node string) bool {
	p := f.part(node)
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// part returns a part of the fleet by its name; nil if there is none.
func (f *Fleet) part(name string) *part {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.parts[name]
}

func (f *Fleet) setPart(name string, p *part) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.parts[name] = p
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

// run starts one part, which ends with the fleet in the order of the teardown; see startPart.
func (b *allInOne) run(name string, run func(ctx context.Context, ready func()) error) error {
	p, err := b.startPart(name, run)
	if err == nil {
		b.teardown = append(b.teardown, p.end)
	}
	return err
}

// startPart starts one part and returns once it has called ready. If the part ends by itself, the fleet ends too.
func (b *allInOne) startPart(name string, run func(ctx context.Context, ready func()) error) (*part, error) {
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
		default: // startPart below returns the error
		}
	}()
	select {
	case <-ready:
		b.fleet.setPart(name, p)
		return p, nil
	case <-p.ended:
		cancel()
		return nil, cmp.Or(p.err, errEnded)
	}
}

var errEnded = errors.New("it ended without a cause")
