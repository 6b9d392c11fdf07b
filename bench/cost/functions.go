package cost

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// Function is what a function costs by a Go benchmark.
type Function struct {
	What               string // in words
	Package, Benchmark string
	Nanos, Allocs      float64 // of one call, the least of the runs
	MostNanos          float64 // the aim; 0: none
	MostAllocs         float64 // likewise; negative: none
}

// functions are the functions that a run measures.
func functions() []Function {
	return []Function{
		{What: "get a permit and release it", Package: "permits", Benchmark: "AcquireRelease/endpoints=1", MostNanos: 100, MostAllocs: 0},
		{What: "the same, with two readings of the clock", Package: "permits", Benchmark: "AcquireReleaseByOwnClock", MostAllocs: -1},
		{What: "the same of a semaphore of golang.org/x/sync", Package: "permits", Benchmark: "AcquireReleaseSemaphore", MostAllocs: -1},
		{What: "longest pause of a request while a table is applied", Package: "admission", Benchmark: "ApplyModels/request_beside_it", MostNanos: 1e6, MostAllocs: -1},
		{What: "table after a change of one endpoint", Package: "discovery/etcd", Benchmark: "TableOfLargeFleet/endpoint_changed", MostNanos: 5e6, MostAllocs: -1},
		{What: "table after a change of one pool", Package: "discovery/etcd", Benchmark: "TableOfLargeFleet/pool_changed", MostNanos: 5e6, MostAllocs: -1},
		{What: "table after a change of the defaults", Package: "discovery/etcd", Benchmark: "TableOfLargeFleet/defaults_changed", MostAllocs: -1},
		{What: "first request to an engine that registers itself, after the engine is healthy", Package: "test/promises/register", Benchmark: "Register", MostNanos: 1e9, MostAllocs: -1},
		{What: "processor time of a reading of 8 GPUs, of which there is one every 5 s", Package: "worker/gpu/telemetry", Benchmark: "Telemetry", MostNanos: 5e6, MostAllocs: -1},
	}
}

const functionRuns = 3

// runFunctions runs the benchmarks, which needs the source and the go command.
func (m *measurement) runFunctions(ctx context.Context) error {
	if !m.wants(FunctionScenario) || m.Source == "" {
		return nil
	}
	for _, f := range functions() {
		m.step(FunctionScenario, "", f.Benchmark)
		if err := f.run(ctx, m.Source); err != nil {
			return err
		}
		m.result.Functions = append(m.result.Functions, f)
	}
	return nil
}

func (f *Function) run(ctx context.Context, source string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^Benchmark"+strings.ReplaceAll(f.Benchmark, "/", "$/^")+"$", "-benchmem",
		"-count", strconv.Itoa(functionRuns), "./"+f.Package)
	cmd.Dir = source
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("cannot run the benchmark %s: %w: %s", f.Benchmark, err, out)
	}
	return f.read(string(out))
}

// read reads the output of go test.
func (f *Function) read(output string) error {
	found := false
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return fmt.Errorf("cannot read the benchmark's output: %w", err)
			}
			switch {
			case fields[i+1] == "ns/op" && (!found || value < f.Nanos):
				f.Nanos, found = value, true
			case fields[i+1] == "allocs/op":
				f.Allocs = value
			}
		}
	}
	if !found {
		return fmt.Errorf("the benchmark %s of %s printed no time: %s", f.Benchmark, f.Package, output)
	}
	return nil
}
