package traces_test

import (
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/otlptest"
)

// BenchmarkTracing measures a plain request through a fleet, with the client and the engine in the same process, and without and with spans.
// The processor time of the whole process is cpu-µs/op.
func BenchmarkTracing(b *testing.B) {
	for _, c := range []struct{ name, ratio string }{{"off", ""}, {"none", "0"}, {"one in a hundred", "0.01"}, {"all", "1"}} {
		b.Run(c.name, func(b *testing.B) {
			if c.ratio != "" {
				spans := otlptest.Start(b)
				for name, value := range map[string]string{
					"OTEL_EXPORTER_OTLP_ENDPOINT": spans.URL, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": c.ratio,
				} {
					if err := os.Setenv(name, value); err != nil {
						b.Fatal(err)
					}
					defer os.Unsetenv(name)
				}
			}
			config := quick()
			config.Logger = func(string) *slog.Logger { return slog.New(slog.DiscardHandler) }
			f := fleettest.Start(b, config, "")
			defer f.Shutdown()
			body := fleettest.ChatBody(1, false)
			for range 200 {
				f.Chat(body)
			}
			b.ReportAllocs()
			before := processorTime(b)
			b.ResetTimer()
			for range b.N {
				f.Chat(body)
			}
			b.StopTimer()
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
