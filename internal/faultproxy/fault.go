package faultproxy

import (
	"fmt"
	"time"
)

// Kind says what a fault does to a connection, or to one direction of it.
type Kind string

// Stall, Swallow, Drip and Slow last until [Proxy.Heal].
const (
	Stall     Kind = "stall"      // nothing passes until Heal, not even the end; then all of it
	Swallow   Kind = "swallow"    // bytes are lost, and so is the end. After Heal, a connection that has lost bytes is closed
	Drip      Kind = "drip"       // Rate bytes pass in each second
	Slow      Kind = "slow"       // bytes arrive Delay after they were sent, instead of the proxy's own delay
	HalfClose Kind = "half-close" // the receiver gets a FIN, and nothing after it
	Cut       Kind = "cut"        // both ends get a FIN, and nothing after it
	Reset     Kind = "reset"      // both ends get an RST
)

// Way is a direction of a connection.
type Way int

// Of a fault of both directions, each direction has it after its own bytes.
const (
	Both     Way = iota
	ToServer     // what the client sends
	ToClient     // what the server sends
)

// Fault is what happens to connections.
type Fault struct {
	Kind Kind
	Way  Way
	// At is how many bytes of the connection pass in this direction before the fault; 0 = it begins at once. If more than that have passed
	// already, it begins at once.
	At    int64
	Rate  int           // of Drip, in bytes per second
	Delay time.Duration // of Slow
}

// check panics if the fault is none.
func (f Fault) check() {
	switch f.Kind {
	case Stall, Swallow, Slow, HalfClose, Cut, Reset:
	case Drip:
		if f.Rate <= 0 {
			panic(fmt.Sprintf("faultproxy: a rate of %d bytes per second", f.Rate))
		}
	default:
		panic(fmt.Sprintf("faultproxy: there is no fault %q", f.Kind))
	}
}

// holdsFor reports whether the fault is one of a direction.
func (f Fault) holdsFor(w Way) bool { return f.Way == Both || f.Way == w }
