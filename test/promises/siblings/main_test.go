package siblings_test

import (
	"testing"

	"colonnade/internal/fleettest"
)

// servers is how many colo servers a fleet has at its start.
const servers = 3

func TestMain(m *testing.M) { fleettest.Main(m) }
