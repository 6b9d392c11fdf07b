package realtime

import (
	"context"
	"errors"
	"time"

	"colonnade/forwarding/server"
)

const (
	// drainTimeout is how long what a peer said before it left may take to arrive.
	drainTimeout = 50 * time.Millisecond
	// closeTimeout is how long the client may take to close after we have.
	closeTimeout = time.Second
	// pingInterval is how often either end of a WebSocket is asked whether it is there. It has gone after two silences.
	pingInterval = 15 * time.Second
)

// side is one end of a connection that is relayed.
type side uint8

const (
	clientSide side = iota
	serverSide
)

// failure is why a pump stopped: what became of one of the sides.
type failure struct {
	side    side
	writing bool // it could not be written to; else no more can be read from it
	err     error
}

// copier carries what one side says to the other, until either fails.
type copier struct {
	done     chan struct{}
	failure  failure // once done is closed
	panicked any     // likewise: what carry panicked with
}

// startCopier runs carry, which returns when it has failed.
func startCopier(carry func() failure) *copier {
	p := &copier{done: make(chan struct{})}
	go func() {
		defer func() {
			if with := recover(); with != nil {
				// Whoever waits for the pump panics instead, and is looked after.
				p.panicked = server.NewPanicError(with)
			}
			close(p.done)
		}()
		p.failure = carry()
	}()
	return p
}

// waitDone waits for the pump's end, for limit at most.
func (p *copier) waitDone(limit time.Duration) bool {
	select {
	case <-p.done: // also when no time is left
		return true
	default:
	}
	t := time.NewTimer(max(limit, 0))
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-t.C:
		return false
	}
}

// duplex is both directions of a connection that is relayed.
type duplex struct {
	up, down *copier // from the client, from the server
}

// errMaxDuration is the end of a connection whose time is up.
var errMaxDuration = errors.New("connection has lasted as long as it may")

// first waits until something ends the connection: a side, or without one the context or the end of its life (0: there
// is none), which the error tells.
func (d *duplex) first(ctx context.Context, life time.Duration) (failure, error) {
	var over <-chan time.Time
	if life > 0 {
		t := time.NewTimer(life)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-d.up.done:
		return firstFailure(d.up, d.down), nil
	case <-d.down.done:
		return firstFailure(d.down, d.up), nil
	case <-over:
		return failure{}, errMaxDuration
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), server.ErrClientGone) && d.up.waitDone(drainTimeout) {
		// The watcher is quicker than whatever the client said before it left.
		return firstFailure(d.up, d.down), nil
	}
	return failure{}, context.Cause(ctx)
}

// firstFailure is why a connection ended of which p stopped first. Who cannot be written to may have said why, before.
func firstFailure(p, other *copier) failure {
	if p.panicked != nil {
		panic(p.panicked)
	}
	if p.failure.writing && other.waitDone(drainTimeout) && other.failure.side == p.failure.side && !other.failure.writing {
		return other.failure
	}
	return p.failure
}
