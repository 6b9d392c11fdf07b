package worker

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"colonnade/fleet"
)

// GPUSource reports what the GPUs of the machine do. The zero value reports nothing.
type GPUSource struct {
	// Run follows the GPUs until ctx ends, and gives report each new state; it makes its calls one after the other. engine returns the process
	// that the worker has started last. A source that fails says so in GPUState.None, and goes on: the engine does not depend on it.
	Run func(ctx context.Context, engine func() EngineProcess, report func(GPUState))
	// Metrics are shown on the admin listener; nil = none.
	Metrics prometheus.Collector
	// Live returns the newest figures for the page /debug/worker, for JSON; nil = none.
	Live func() any
}

// EngineProcess says which process is the engine.
type EngineProcess struct {
	PID int    // of the process that the worker has started, the leader of a process group of its own; 0 = it has not started one
	URL string // of the engine, whose port shows the process of an engine that others have started

	Endpoint, Pool string // as the engine is registered; "" while that is not known
}

// GPUState is what is known of the GPUs of the machine.
type GPUState struct {
	Driver string            // its version; "" = no GPU can be seen
	None   string            // why nothing is known; "" = something is
	GPUs   []fleet.WorkerGPU // of the machine
	Engine []string          // UUIDs of the GPUs and MIG instances that the engine uses
	// Out says why the engine should get no requests; "" = its GPUs are well. The engine is taken out while it stands here.
	Out string
	// Incidents are those since the last report, of which the worker sets the numbers.
	Incidents []fleet.Incident
}
