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

// One address gets three quarters of few connections, and 1024 of many, unless a number is set.
func TestConnectionsForOneAddress(t *testing.T) {
	for all, want := range map[int]int{1: 1, 14: 10, 1000: 750, 65536: 1024} {
		if got := (&EntryConfig{}).connsPerIP(all); got != want {
			t.Errorf("of %d: %d, want %d", all, got, want)
		}
	}
	if got := (&EntryConfig{MaxConnsPerIP: 20}).connsPerIP(14); got != 20 {
		t.Errorf("as set: %d, want 20", got)
	}
}
