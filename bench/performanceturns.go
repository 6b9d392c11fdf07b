package bench

import (
	"fmt"

	"colonnade/bench/cost"
)

func plainResult(m *cost.Result, size *cost.Size) (ScenarioResult, bool) {
	s := ScenarioResult{
		Name: cost.PlainScenario, Title: "as many plain requests as are answered",
		Question: "What does a request cost when the machine does nothing else?",
		Method: fmt.Sprintf("%d clients send a chat request of 1 KB, each again as soon as it is answered with 1.5 KB, for %s in each of %d rounds. The engine answers at once.",
			size.Clients, size.PlainTime, size.Rounds),
		Columns: turnColumns("a request", cost.ChainName),
	}
	t := turnsTable{&s, m.Plain, cost.ChainName, chart{Name: "cpu", Title: "Processor time of a plain request"}}
	t.add()
	s.Thresholds = []ThresholdResult{
		aim("processor time of a plain request ÷ bare chain", cost.FleetName, "at most 1.6 ×", ratioOf(m.Plain, cost.FleetName, cost.ChainName, cost.CPU), 1.6, "×"),
		aim("processor time of a plain request ÷ entry + colo", cost.ServeName, "at most 0.6 ×", ratioOf(m.Plain, cost.ServeName, cost.FleetName, cost.CPU), 0.6, "×"),
	}
	return s, len(m.Plain) > 0
}

func spacedResult(m *cost.Result, size *cost.Size) (ScenarioResult, bool) {
	s := ScenarioResult{
		Name: cost.SpacedScenario, Title: "evenly spaced plain requests",
		Question: "What does a request cost, and how long does it take, on a machine that has time for it?",
		Method: fmt.Sprintf("The same requests, %.0f a second and evenly spaced, for %s in each round: a third of what the bare chain carries. A request is sent when it "+
			"is due, whether or not earlier ones were answered, and latency counts from when it was due.", m.Rate, size.SpacedTime),
		Columns: turnColumns("a request", cost.ChainName),
	}
	t := turnsTable{&s, m.Spaced, cost.ChainName, chart{Name: "cpu", Title: "Processor time of an evenly spaced request"}}
	t.add()
	latency := chart{Name: "latency", Title: "Latency of evenly spaced requests", Kind: barChart, X: axis{Label: "of a round's requests, median of the rounds", Names: []string{"p50", "p99"}},
		Y: axis{Label: "latency", Unit: "ms"}}
	for _, f := range m.Spaced {
		latency.Series = append(latency.Series, series{Gateway: f.Contestant, Y: values(f.Median(cost.P50)/1e3, f.Median(cost.P99)/1e3)})
	}
	s.Charts = append(s.Charts, latency)
	fleet := func(figure func(cost.Round) float64) float64 {
		return ratioOf(m.Spaced, cost.FleetName, cost.ChainName, figure)
	}
	s.Thresholds = []ThresholdResult{
		aim("processor time of an evenly spaced request ÷ bare chain", cost.FleetName, "at most 1.2 ×", fleet(cost.CPU), 1.2, "×"),
		aim("its p50 ÷ bare chain", cost.FleetName, "at most 1.3 ×", fleet(cost.P50), 1.3, "×"),
		aim("its p99 ÷ bare chain", cost.FleetName, "at most 1.3 ×", fleet(cost.P99), 1.3, "×"),
	}
	return s, len(m.Spaced) > 0
}

func chunkResult(m *cost.Result, size *cost.Size) (ScenarioResult, bool) {
	s := ScenarioResult{
		Name: cost.ChunkScenario, Title: "chunks of streams",
		Question: "What does a chunk of a streamed answer cost?",
		Method: fmt.Sprintf("%d streams of server-sent events at once, each with %d chunks, one every %d ms, in each of %d rounds.",
			size.Streams, size.Chunks, size.GapMillis, size.Rounds),
		Columns: turnColumns("a chunk", cost.NginxName),
	}
	t := turnsTable{&s, m.Chunks, cost.NginxName, chart{Name: "cpu", Title: "Processor time of a chunk"}}
	t.add()
	s.Thresholds = []ThresholdResult{
		aim("processor time of a chunk ÷ nginx", cost.FleetName, "at most 1.7 ×", ratioOf(m.Chunks, cost.FleetName, cost.NginxName, cost.CPU), 1.7, "×"),
		aim("processor time of a chunk ÷ nginx", cost.ServeName, "at most 1.15 ×", ratioOf(m.Chunks, cost.ServeName, cost.NginxName, cost.CPU), 1.15, "×"),
	}
	return s, len(m.Chunks) > 0
}

func messageResult(m *cost.Result, size *cost.Size) (ScenarioResult, bool) {
	s := ScenarioResult{
		Name: cost.MessageScenario, Title: "messages of realtime sessions",
		Question: "What does a message cost, there and back?",
		Method: fmt.Sprintf("%d WebSocket sessions send %d messages of 1280 bytes each, which is 20 ms of speech, in each of %d rounds, and each waits for the "+
			"echo before the next. *%s* are two relays of TCP, one behind the other, each a process that copies bytes and knows no messages.",
			size.Sessions, size.Messages, size.Rounds, cost.RelayName),
		Columns: turnColumns("a message and its echo", cost.RelayName),
	}
	t := turnsTable{&s, m.Messages, cost.RelayName, chart{Name: "cpu", Title: "Processor time of a message and its echo"}}
	t.add()
	s.Thresholds = []ThresholdResult{aim("processor time of a message and its echo ÷ bare relays", cost.FleetName, "at most 1.4 ×",
		ratioOf(m.Messages, cost.FleetName, cost.RelayName, cost.CPU), 1.4, "×")}
	return s, len(m.Messages) > 0
}

func tracesResult(m *cost.Result, size *cost.Size) (ScenarioResult, bool) {
	s := ScenarioResult{
		Name: cost.TracesScenario, Title: "plain requests with traces",
		Question: "What do traces cost?",
		Method: fmt.Sprintf("Two fleets of an entry and a colo server differ in one thing: one records the spans of a hundredth of the requests, and sends them to a collector of OpenTelemetry. "+
			"%d clients send plain requests to one and the other in turns of %s, in %d rounds.", size.Clients, size.TraceTime, size.TraceRounds),
		Columns: turnColumns("a request", cost.FleetName),
	}
	t := turnsTable{&s, m.Traces, cost.FleetName, chart{Name: "cpu", Title: "Processor time of a plain request with traces"}}
	t.add()
	s.Charts = nil // the table has all of it
	s.Thresholds = []ThresholdResult{aim("processor time with one request of a hundred traced ÷ without traces", cost.TracedName, "at most 1.03 ×",
		ratioOf(m.Traces, cost.TracedName, cost.FleetName, cost.CPU), 1.03, "×")}
	return s, len(m.Traces) > 0
}
