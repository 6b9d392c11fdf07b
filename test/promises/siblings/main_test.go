package siblings_test

import (
	"testing"

	"colonnade/internal/fleettest"
)

// servers is how many colo servers a fleet has at its start.
const servers = 1

func TestMain(m *testing.M) { fleettest.Main(m) }

// requireSiblings skips a test of a colo with several servers.
func requireSiblings(t testing.TB) {
	t.Helper()
	if servers == 1 {
		t.Skip("a colo has one server")
	}
}
