package serve_test

import (
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/proctest"
	"colonnade/internal/simengine"
	"colonnade/onebox"
)

func TestMain(m *testing.M) { fleettest.Main(m) }

// inTest is a process whose goroutines run in the process of the test.
func inTest(engine simengine.Config) onebox.Config {
	c := fleettest.OneColo(engine)
	c.Serve = true
	return c
}

// start runs a process beside that of the test.
func start(t *testing.T, c proctest.Config) (*proctest.Fleet, *proctest.Node) {
	t.Helper()
	c.Serve = true
	f := proctest.Start(t, c)
	return f, f.Entries[0]
}
