package siblings_test

import (
	"flag"
	"strconv"
	"testing"

	"colonnade/internal/oracle"
	"colonnade/internal/testkit"
)

// servers is how many colo servers a fleet has at its start.
const servers = 3

// TestMain lets some tests run at once: each mostly waits for processes of its own, of which many at once would slow each other down.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(testkit.AtScale(5, 1))); err != nil {
		panic(err)
	}
	testkit.VerifyMain(oracle.LeakCheck{Tests: m})
}
