package node

import (
	"math"
	"testing"
)

func TestConnectionsForFiles(t *testing.T) {
	f := func(files, perConn, want int) {
		t.Helper()
		if got := connsForFiles(files, perConn); got != want {
			t.Errorf("%d files, %d for each connection: %d connections, want %d", files, perConn, got, want)
		}
	}
	f(0, 2, 1)
	f(64, 2, 14)
	f(1024, 2, 464)
	f(20_000, 2, 9359)
	f(20_000, 5, 3743)
	f(1<<20, 2, 65_536)
	f(math.MaxInt32, 2, 65_536)
}
