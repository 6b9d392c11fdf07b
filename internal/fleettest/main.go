package fleettest

import (
	"flag"
	"strconv"
	"testing"

	"colonnade/internal/oracle"
	"colonnade/internal/testkit"
)

func Main(m *testing.M) {
	// Those that may run at once wait more than they work. In a soak, whose marks are exact, each is alone.
	if err := flag.Set("test.parallel", strconv.Itoa(testkit.AtScale(4, 1))); err != nil {
		panic(err)
	}
	testkit.VerifyMain(oracle.Watched{Tests: m})
}
