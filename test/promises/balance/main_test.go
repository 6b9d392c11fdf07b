package balance_test

import (
	"testing"

	"colonnade/internal/fleettest"
)

func TestMain(m *testing.M) { fleettest.Main(m) }
