package onebox_test

import (
	"os"
	"testing"

	"colonnade/internal/fleettest"
)

// TestMain runs the tests, or a slow engine for a benchmark.
func TestMain(m *testing.M) {
	if listen := os.Getenv(slowEngineListen); listen != "" {
		runSlowEngine(listen)
		return
	}
	fleettest.Main(m)
}
