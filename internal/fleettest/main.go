package fleettest

import (
	"flag"
	"strconv"

	"go.uber.org/goleak"

	"colonnade/internal/oracle"
	"colonnade/internal/testkit"
)

// Main runs the tests of a package and exits: with an error if goroutines, descriptors or memory were left behind.
//
// Parallel tests wait more than they compute, so more of them run at once than there are processors. In a soak, whose
// marks are exact, each is alone.
func Main(m goleak.TestingM) {
	if err := flag.Set("test.parallel", strconv.Itoa(testkit.AtScale(4, 1))); err != nil {
		panic(err)
	}
	testkit.VerifyMain(oracle.LeakCheck{Tests: m})
}
