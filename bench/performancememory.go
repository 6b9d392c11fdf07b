package bench

import (
	"fmt"
	"math"
	"slices"

	"colonnade/bench/cost"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

func memoryColumns(of string) []column {
	return []column{
		{Name: "first hop", Unit: "KiB", Better: lower, Key: true, Help: "resident memory for each " + of + " in the node that clients connect to."},
		{Name: "second hop", Unit: "KiB", Better: lower, Help: "the same in the node behind it."},
	}
}

// addMemory adds a row and bars for each contestant. Its nodes stand in the order of their start, the last of which clients connect to.
func (s *ScenarioResult) addMemory(all []cost.Held, title string) {
	c := chart{Name: "memory", Title: title, Kind: barChart, X: axis{Label: "node", Names: []string{"first hop", "second hop"}}, Y: axis{Label: "memory", Unit: "KiB"}}
	for i := 0; i < len(all); {
		n := i
		for n < len(all) && all[n].Contestant == all[i].Contestant {
			n++
		}
		row := values(math.NaN(), math.NaN())
		for hop := range min(len(row), n-i) {
			row[hop] = Value(all[n-1-hop].Each / kib)
		}
		s.Rows = append(s.Rows, Row{Gateway: all[i].Contestant, Values: row})
		c.Series = append(c.Series, series{Gateway: all[i].Contestant, Y: row})
		i = n
	}
	s.Charts = append(s.Charts, c)
}

// most is the most memory in a node of a contestant, in KiB.
func most(all []cost.Held, contestant string) float64 {
	most := math.NaN()
	for _, h := range all {
		if h.Contestant == contestant && !(h.Each/kib <= most) {
			most = h.Each / kib
		}
	}
	return most
}

func openResult(m *cost.Result, size *cost.Size) (ScenarioResult, bool) {
	s := ScenarioResult{
		Name: cost.OpenScenario, Title: "memory of open streams",
		Question: "How much memory does an open stream take?",
		Method: fmt.Sprintf("%d streams are open, with a chunk every %d ms each. Memory is what the processes have allocated (RssAnon), less that after some plain "+
			"requests. The kernel's buffers of sockets are no part of it.", size.Open, size.OpenGapMillis),
		Columns: memoryColumns("open stream"),
	}
	s.addMemory(m.Open, "Memory of an open stream")
	s.Thresholds = []ThresholdResult{aim("memory of an open stream in each node", cost.FleetName, "at most 24 KiB", most(m.Open, cost.FleetName), 24, "KiB")}
	return s, len(m.Open) > 0
}

func waitingResult(m *cost.Result, size *cost.Size) (ScenarioResult, bool) {
	s := ScenarioResult{
		Name: cost.WaitingScenario, Title: "memory of waiting requests",
		Question: "How much memory does a request take while it waits for a slot, beside its connection and its body?",
		Method: fmt.Sprintf("%d requests, which come over two seconds, wait for the only slot of an engine, on connections that have served a request before. Memory then, less memory with these connections idle, "+
			"less the request itself.", size.Waiting),
		Columns: memoryColumns("waiting request"),
	}
	s.addMemory(m.Waiting, "Memory of a waiting request")
	s.Charts = nil
	s.Thresholds = []ThresholdResult{aim("memory of a waiting request in each node", cost.FleetName, "at most 4 KiB", most(m.Waiting, cost.FleetName), 4, "KiB")}
	return s, len(m.Waiting) > 0
}

func manyResult(m *cost.Result, size *cost.Size) (ScenarioResult, bool) {
	s := ScenarioResult{
		Name: cost.ManyScenario, Title: "very many open streams",
		Question: "Do so many streams at once get their chunks, and in time?",
		Method:   fmt.Sprintf("Streams with a chunk every %d ms each, through each contestant, and directly to the engine (*%s*).", size.OpenGapMillis, cost.DirectName),
		Columns: []column{
			{Name: "streams", Help: "open at once. The limit of open files bounds their number: one process needs two files for each, and two nodes with a link between them need one each."},
			{Name: "failed", Better: lower, Help: "streams that did not open, or were cut."},
			{Name: "gap p50", Unit: "ms", Help: "time between two chunks at the client, median."},
			{Name: "gap p99", Unit: "ms", Better: lower, Help: "the same, 99th percentile."},
			{Name: "× engine", Unit: "×", Better: lower, Help: "gap p99 relative to that without a gateway."},
			{Name: "chunks/s", Help: "chunks that clients got in a second."},
			{Name: "CPU", Unit: "%", Better: lower, Help: "processor time of the nodes, relative to one processor."},
		},
	}
	direct := slices.IndexFunc(m.Many, func(c cost.Many) bool { return c.Contestant == cost.DirectName })
	for _, c := range m.Many {
		row := Row{Gateway: c.Contestant, Values: values(float64(c.Streams), float64(c.Failed), c.P50, c.P99, math.NaN(), math.Round(c.ChunksASecond), c.CPU)}
		if c.Contestant == cost.DirectName {
			row.Values[6] = Unmeasured()
		} else if direct >= 0 {
			row.Values[4] = Value(c.P99 / m.Many[direct].P99)
		}
		if c.FirstFail != "" {
			s.Notes = append(s.Notes, c.Contestant+": the first that failed: "+c.FirstFail)
		}
		if c.Contestant == cost.FleetName {
			s.Thresholds = []ThresholdResult{
				aim(fmt.Sprintf("failures among %d streams", c.Streams), c.Contestant, "none", float64(c.Failed), 0, ""),
				aim(fmt.Sprintf("gap p99 of %d streams ÷ the engine's own", c.Streams), c.Contestant, "less than 3 ×", float64(row.Values[4]), 3, "×"),
			}
		}
		s.Rows = append(s.Rows, row)
	}
	return s, len(m.Many) > 0
}

// functionResult is what single functions cost, by the benchmarks of their packages.
func functionResult(m *cost.Result, _ *cost.Size) (ScenarioResult, bool) {
	s := ScenarioResult{
		Name: cost.FunctionScenario, Title: "single functions",
		Question: "What do the parts cost that every request, or every change of a document, needs?",
		Method: "The Go benchmarks of their packages, three times each, of which the least counts; `make bench-go` runs all benchmarks. " +
			"Tables are of a fleet with 10 000 endpoints and 100 000 accounts; the one that is applied has 10 000 endpoints in its colo.",
		Columns: []column{
			{Name: "time", Unit: "ns", Better: lower, Help: "of one call."},
			{Name: "allocations", Help: "of one call."},
		},
	}
	for _, f := range m.Functions {
		s.Rows = append(s.Rows, Row{Gateway: f.What, Values: values(f.Nanos, f.Allocs)})
		if f.MostNanos > 0 {
			unit, nanos := "ns", 1.0
			if f.MostNanos >= 1e6 {
				unit, nanos = "ms", 1e6
			}
			s.Thresholds = append(s.Thresholds, aim(f.What, f.Package, "at most "+measure(Value(f.MostNanos/nanos), unit), f.Nanos/nanos, f.MostNanos/nanos, unit))
		}
		if f.MostAllocs >= 0 {
			s.Thresholds = append(s.Thresholds, aim(f.What+", allocations", f.Package, "none", f.Allocs, f.MostAllocs, ""))
		}
	}
	return s, len(m.Functions) > 0
}

func startResult(m *cost.Result, size *cost.Size) (ScenarioResult, bool) {
	s := ScenarioResult{
		Name: cost.StartScenario, Title: "start and rest of one process",
		Question: "How soon does `colonnade serve` answer, and what does it take at rest?",
		Method: fmt.Sprintf("It is started %d times, with the documents of the other scenarios. Memory is measured %s after the last start's first answer.",
			size.Starts, size.Settle),
		Columns: []column{
			{Name: "first answer", Unit: "ms", Better: lower, Help: "from the start of the process until a client has its first answer, median."},
			{Name: "least", Unit: "ms", Help: "the least of all starts."},
			{Name: "most", Unit: "ms", Help: "the most of all starts."},
			{Name: "resident", Unit: "MiB", Help: "memory at rest, with the pages of the program that are in use."},
			{Name: "allocated", Unit: "MiB", Help: "that part of it that the process has allocated."},
			{Name: "program", Unit: "MiB", Help: "size of the binary `colonnade`."},
		},
	}
	if m.Start == nil {
		return s, false
	}
	first, program := slices.Sorted(slices.Values(m.Start.FirstAnswer)), math.NaN()
	for _, p := range m.Programs {
		if p.Name == "colonnade" {
			program = p.Bytes / mib
		}
		s.Notes = append(s.Notes, fmt.Sprintf("The binary `%s` has %s.", p.Name, measure(Value(p.Bytes/mib), "MiB")))
	}
	middle := quantile(slices.Clone(first), 0.5)
	s.Rows = []Row{{Gateway: cost.ServeName, Values: values(middle, first[0], first[len(first)-1], m.Start.Rest/mib, m.Start.RestOwn/mib, program)}}
	s.Thresholds = []ThresholdResult{aim("start to first answer", cost.ServeName, "less than 300 ms", middle, 300, "ms")}
	return s, true
}
