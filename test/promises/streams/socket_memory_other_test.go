//go:build !linux

package streams_test

import (
	"time"

	"colonnade/internal/fleettest"
)

// heldByNodes returns nothing: this kernel does not say what it holds for a socket.
func heldByNodes(f *fleettest.Fleet) map[string]held {
	f.T.Log("only Linux says what the kernel holds for a socket: not compared here")
	return nil
}

// awaitAcknowledged waits for as long as the other end mostly takes to acknowledge: this kernel does not say when it has.
func awaitAcknowledged(*rawConn) error {
	time.Sleep(200 * time.Millisecond)
	return nil
}
