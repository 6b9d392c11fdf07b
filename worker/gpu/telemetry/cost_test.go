package telemetry

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/internal/nvmltest"
	"colonnade/worker"
)

// eightGPUs is a machine with eight H200.
func eightGPUs(pid int) string {
	var text strings.Builder
	for line := range strings.Lines(nvmltest.H200) {
		if !strings.HasPrefix(line, "gpu 0 ") {
			text.WriteString(strings.Replace(line, "count 1", "count 8", 1))
			continue
		}
		for i := range 8 {
			own := strings.Replace(line, "gpu 0 ", fmt.Sprintf("gpu %d ", i), 1)
			text.WriteString(strings.Replace(own, "9b1a34", fmt.Sprintf("9b1a%02d", i), 1))
		}
	}
	for i := range 8 {
		fmt.Fprintf(&text, "process %d %d 136200000000 4294967295 4294967295\n", i, pid)
	}
	return text.String()
}

// BenchmarkTelemetry measures the processor time of a reading of eight GPUs that an engine uses: in colonnade-gpus, and in the worker from the
// line to what it knows. percent-of-a-core is that of both at the usual interval of 5 s. The library answers at once, so a driver's own time
// is not in it.
func BenchmarkTelemetry(b *testing.B) {
	leader, computes := engine(b)
	nvmltest.NewMachine(b, eightGPUs(computes))
	readings := make(chan struct{})
	s := newSource(Config{Program: nvmltest.Program(b), Library: nvmltest.Library(b), Interval: 10 * time.Millisecond})
	before := usage(b, syscall.RUSAGE_SELF)
	children := usage(b, syscall.RUSAGE_CHILDREN)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx, func() worker.EngineProcess { readings <- struct{}{}; return worker.EngineProcess{PID: leader} }, func(worker.GPUState) {})
	}()
	for b.Loop() {
		<-readings
	}
	go func() {
		for range readings {
		}
	}()
	cancel()
	<-ended
	close(readings)
	own, child := usage(b, syscall.RUSAGE_SELF)-before, usage(b, syscall.RUSAGE_CHILDREN)-children
	n := time.Duration(b.N)
	b.ReportMetric(float64(child/n)/1e3, "µs-child/reading")
	b.ReportMetric(float64(own/n)/1e3, "µs-worker/reading")
	b.ReportMetric(float64((child+own)/n), "ns/op") // the processor's time instead of the clock's
	b.ReportMetric(100*(child+own).Seconds()/float64(n)/5, "percent-of-a-core")
}

func usage(b *testing.B, who int) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
