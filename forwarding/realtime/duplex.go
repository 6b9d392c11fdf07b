package realtime

import (
	"context"
	"errors"
	"time"

	"colonnade/forwarding/server"
)

const (
	// drainTimeout is how long data that a side sent before its end may take to arrive.
	drainTimeout = 50 * time.Millisecond
	// closeTimeout is how long the client may take to close after this node has.
	closeTimeout = time.Second
	// pingInterval is the default time between two pings to each end. An end has gone when it has been silent for two of them.
	pingInterval = 15 * time.Second
)

// side is one end of a relayed connection.
type side uint8

const (
	clientSide side = iota
	serverSide
)

// failure is why a copier stopped: one of its sides failed, or ended.
type failure struct {
	side    side
	writing bool // the side could not be written to; otherwise it could not be read
	err     error
}

// copier is a goroutine that copies what one side sends to the other, until either fails.
type copier struct {
	done     chan struct{}
	failure  failure // after done is closed
	panicked any     // likewise: a panic of the copier
}

// startCopier calls run, which returns at the failure, in a goroutine.
func startCopier(run func() failure) *copier {
	c := &copier{done: make(chan struct{})}
	go func() {
		defer func() {
			if recovered := recover(); recovered != nil {
				c.panicked = server.NewPanicError(recovered) // firstFailure repeats it where it is recovered from
			}
			close(c.done)
		}()
		c.failure = run()
	}()
	return c
}

// waitDone waits for the copier to stop, for at most limit, and reports whether it has.
func (c *copier) waitDone(limit time.Duration) bool {
	select {
	case <-c.done: // even if limit is not positive
		return true
	default:
	}
	t := time.NewTimer(max(limit, 0))
	defer t.Stop()
	select {
	case <-c.done:
		return true
	case <-t.C:
		return false
	}
}

// duplex is the two copiers of a relayed connection.
//
// Each copier blocks in a read of one side, or in a write to the other. The goroutine that owns the duplex waits for the first event:
// a copier stops, the context ends, or the longest duration is over. It then tells each side of the end, in an order and within times
// that depend on the event (closePlan, windDown). Finally it cancels both connections, which makes the copiers stop, and waits for
// them: no goroutine outlives Run.
type duplex struct {
	up, down *copier // from the client, from the server
}

// errMaxDuration is the end of a connection that has reached its longest duration.
var errMaxDuration = errors.New("connection has reached its maximum duration")

// first waits for the first event. It returns a side's failure, or as an error the cause of ctx or errMaxDuration. life is the longest
// duration; 0 = none.
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
		// The watcher may find the client's end before the copier has read what the client sent before it.
		return firstFailure(d.up, d.down), nil
	}
	return failure{}, context.Cause(ctx)
}

// firstFailure returns the failure that ended a connection of which c has stopped first. A side that cannot be written to may have sent
// the reason before.
func firstFailure(c, other *copier) failure {
	if c.panicked != nil {
		panic(c.panicked)
	}
	if c.failure.writing && other.waitDone(drainTimeout) && other.failure.side == c.failure.side && !other.failure.writing {
		return other.failure
	}
	return c.failure
}
