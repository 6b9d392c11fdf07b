package fleet

import (
	"slices"
	"time"
)

// Worker is a machine with engines as the process that runs beside one of them describes it. There is one for each such process, so a
// machine with several engines has several, which have the same Machine.
type Worker struct {
	Node string `json:"-"`
	// Colo that its engine is registered in.
	Colo string `json:"colo" is:"name" need:"yes"`
	// Identifier of the process; another one at each start.
	Boot string `json:"boot" is:"text" need:"yes"`
	// Name of the machine; workers of one machine have the same.
	Machine string `json:"machine,omitempty" is:"text"`
	// Address of its admin listener.
	Admin string `json:"admin,omitempty" is:"address"`
	// Protocols between nodes that it speaks.
	Protocol ProtocolRange `json:"protocol,omitzero"`
	// Version of its software.
	Version string `json:"version,omitempty"`
	// API key with the role worker by which it was registered, written by the server that took the registration; none of a process that reaches etcd.
	RegisteredBy string `json:"registered_by,omitempty" is:"text"` // APIKey.Mark

	// The engine that the worker runs or watches.
	Engine WorkerEngine `json:"engine"`
	// Version of the driver of the GPUs; none if the machine has no GPU that the worker can see.
	Driver string `json:"driver,omitempty" is:"text"`
	// Why nothing is known of GPUs; none if something is.
	NoGPUs string `json:"no_gpus,omitempty" is:"text"`
	// GPUs of the machine.
	GPUs []WorkerGPU `json:"gpus,omitempty"`
	// Incidents of the engine and its GPUs, oldest first, the last 16.
	Incidents []Incident `json:"incidents,omitempty"`
}

// States of an engine with a worker.
const (
	WorkerStarting = "starting" // the engine has not answered yet
	WorkerServing  = "serving"  // registered, for requests
	WorkerOut      = "out"      // registered, for no requests; Reason says why
	WorkerDraining = "draining" // the worker is about to end
	WorkerBackoff  = "backoff"  // the engine has ended, and is started again after a pause
)

// WorkerEngine is the engine of a worker.
type WorkerEngine struct {
	// Key of the engine's document, without endpoints/ and its colo.
	Endpoint string `json:"endpoint" is:"name" need:"yes"`
	// Pool of the engine; none while it is not known.
	Pool string `json:"pool,omitempty" is:"name"`
	// Address of the engine, as colo servers reach it.
	URL string `json:"url" is:"url" need:"yes"`
	// Software of the engine and its version, in words; none while it is not known.
	Software string `json:"software,omitempty" is:"text"`
	// How far the engine is.
	State string `json:"state" oneof:"starting serving out draining backoff"`
	// Why it is not serving.
	Reason string `json:"reason,omitempty" is:"text"`
	// Time since which it is in this state.
	Since time.Time `json:"since,omitzero"`
	// How many times the engine has ended by itself and was started again.
	Restarts int `json:"restarts,omitempty" range:"0,1000000000"`
	// UUIDs of the GPUs, or of their MIG instances, that the engine uses.
	GPUs []string `json:"gpus,omitempty" is:"text"`
}

// WorkerGPU is a GPU of a machine.
type WorkerGPU struct {
	// Number of the GPU on its machine.
	Index int `json:"index" range:"0,1024"`
	// Identifier of the GPU, such as GPU-3d3b1e8c-….
	UUID string `json:"uuid" is:"text" need:"yes"`
	// Product, such as NVIDIA H200.
	Name string `json:"name,omitempty" is:"text"`
	// Memory. MiB.
	MemoryMiB int `json:"memory_mib,omitempty" range:"0,1000000000"`
	// UUIDs of its MIG instances.
	MIG []string `json:"mig,omitempty" is:"text"`
	// Why no request should run on it; none if it is well.
	Problem string `json:"problem,omitempty" is:"text"`
}

// Has reports whether a UUID is that of the GPU, or of one of its MIG instances.
func (g *WorkerGPU) Has(uuid string) bool { return g.UUID == uuid || slices.Contains(g.MIG, uuid) }

// Kinds of incidents.
const (
	IncidentEngineExit = "engine_exit" // the engine has ended by itself
	IncidentEngineHung = "engine_hung" // the engine has not answered for so long that it counts as hung; a worker that has started it ends it
	IncidentXid        = "gpu_xid"     // the driver has reported an error of a GPU
	IncidentECC        = "gpu_ecc"     // errors of a GPU's memory that could not be corrected
	IncidentGPULost    = "gpu_lost"    // a GPU does not answer any more
)

// Incident is something that has gone wrong at an engine or its GPUs.
type Incident struct {
	// Number of the incident in its process, from 1.
	Number int `json:"number" range:"1,1000000000"`
	// When it was noticed.
	Time time.Time `json:"time"`
	// Sort of incident.
	Kind string `json:"kind" oneof:"engine_exit engine_hung gpu_xid gpu_ecc gpu_lost"`
	// UUID of the GPU.
	GPU string `json:"gpu,omitempty" is:"text"`
	// One sentence about it.
	Detail string `json:"detail,omitempty" is:"text"`
}

// MaxIncidents is the most incidents that a worker's document has.
const MaxIncidents = 16
