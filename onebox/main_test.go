package onebox_test

import (
	"os"
	"testing"

	"colonnade/internal/fleettest"
)

// TestMain runs the tests, or a bare proxy for a benchmark.
func TestMain(m *testing.M) {
	if listen, to := os.Getenv(bareProxyListen), os.Getenv(bareProxyTo); listen != "" {
		runBareProxy(listen, to)
		return
	}
	fleettest.Main(m)
}
