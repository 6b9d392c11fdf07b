package relay_test

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/relay"
)

// WriteProgress gives up soon on a node that does not read.
func TestWriteProgressTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, other := net.Pipe()
		defer other.Close()
		defer client.Close()
		began := time.Now()
		if err := relay.WriteProgress(client, hop.Progress{Position: 1}); err == nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
