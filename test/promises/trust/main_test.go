package trust_test

import (
	"os"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/otlptest"
)

// spans takes the spans of every request of these tests, so that each search for what must not be kept looks there, too.
var spans *otlptest.Collector

func TestMain(m *testing.M) { fleettest.Main(withCollector{m}) }

// withCollector runs the tests while a collector runs.
type withCollector struct{ tests *testing.M }

// Run implements goleak.TestingM.
func (w withCollector) Run() int {
	spans = otlptest.New()
	defer spans.Close()
	for name, value := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": spans.URL, "OTEL_BSP_SCHEDULE_DELAY": "20"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	return w.tests.Run()
}
