package hops_test

import (
	"flag"
	"strconv"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
)

// TestMain lets only three tests run at once: each has a fleet with a proxy on every way, and goes by which server answers in time.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(testkit.AtScale(3, 1))); err != nil {
		panic(err)
	}
	fleettest.Main(m)
}
