package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"colonnade/worker/gpu"
)

// GPUStats is what a worker knows of the GPUs of its engine.
type GPUStats struct {
	Known  bool   // the driver answers
	Driver string // its version
	GPUs   []GPU

	Endpoint, Pool string // of the engine; "" while they are not known
}

// GPU is one of them.
type GPU struct {
	*gpu.GPU
	EngineMemory uint64         // bytes of the engine's processes; 0 = not known
	LastXid      uint64         // 0 = there was none
	Instances    []gpu.Instance // that the engine uses
}

// gpuMetrics are the metrics of GPUs. Labels gpu, UUID and modelName are those of NVIDIA's DCGM exporter.
var gpuMetrics = struct {
	known, info, memoryUsed, memoryTotal, engineMemory, utilization, power, powerLimit, temperature, memoryTemperature,
	smClock, memoryClock, clockReason, corrected, uncorrected, remapPending, remapFailed, retiredPending, recovery, xid *prometheus.Desc
}{
	known: newDesc("inference_gpu_telemetry_up", "1 if the driver of the GPUs answers, otherwise 0."),
	info: newDesc("inference_gpu_info", "1; the labels name a GPU that the engine uses, its driver, and the engine's endpoint and pool.",
		"gpu", "UUID", "modelName", "driver", "endpoint", "pool"),
	memoryUsed:        gpuDesc("memory_used_bytes", "Memory in use, by all processes, on a GPU that the engine uses, without what the driver reserves. Of a divided GPU (MIG), UUID and memory are those of the engine's instances."),
	memoryTotal:       gpuDesc("memory_total_bytes", "Memory of the GPU, or of the MIG instance."),
	engineMemory:      gpuDesc("engine_memory_bytes", "Memory of the engine's processes on the GPU, if the driver can tell."),
	utilization:       gpuDesc("utilization_percent", "Share of the last sample period in which something ran on the GPU; a divided GPU (MIG) has none."),
	power:             gpuDesc("power_watts", "Power draw of the GPU."),
	powerLimit:        gpuDesc("power_limit_watts", "Power limit in force."),
	temperature:       gpuDesc("temperature_celsius", "Temperature of the GPU."),
	memoryTemperature: gpuDesc("memory_temperature_celsius", "Temperature of the GPU's memory, if it has a sensor."),
	smClock:           gpuDesc("sm_clock_hertz", "Clock of the streaming multiprocessors."),
	memoryClock:       gpuDesc("memory_clock_hertz", "Clock of the memory."),
	clockReason: newDesc("inference_gpu_clocks_event_reason", "1 if this is a reason why the clocks of the GPU are not higher, otherwise 0.",
		"gpu", "UUID", "reason"),
	corrected:      gpuDesc("ecc_corrected_errors", "Memory errors that were corrected since the driver was loaded."),
	uncorrected:    gpuDesc("ecc_uncorrected_errors", "Memory errors that could not be corrected since the driver was loaded. More of them take the engine out."),
	remapPending:   gpuDesc("row_remap_pending", "1 if a row of memory is replaced at the next reset, otherwise 0."),
	remapFailed:    gpuDesc("row_remap_failed", "1 if a row of memory could not be replaced, otherwise 0. It takes the engine out."),
	retiredPending: gpuDesc("page_retirement_pending", "1 if a page of memory is retired when the driver is loaded next, otherwise 0."),
	recovery:       gpuDesc("recovery_action", "Action that the driver asks for: 0 none, 1 a reset, 2 a restart of the machine, 3 no traffic between GPUs, 4 drain and reset."),
	xid:            gpuDesc("last_xid", "Number of the last Xid of the GPU since the worker began, 0 if there was none."),
}

func gpuDesc(name, help string) *prometheus.Desc {
	return newDesc("inference_gpu_"+name, help, "gpu", "UUID")
}

// NewGPUs returns a collector of the GPUs of a worker. stats is called at each scrape.
func NewGPUs(stats func() GPUStats) prometheus.Collector {
	m := &gpuMetrics
	return stateCollector{
		descs: []*prometheus.Desc{m.known, m.info, m.memoryUsed, m.memoryTotal, m.engineMemory, m.utilization, m.power, m.powerLimit, m.temperature,
			m.memoryTemperature, m.smClock, m.memoryClock, m.clockReason, m.corrected, m.uncorrected, m.remapPending, m.remapFailed,
			m.retiredPending, m.recovery, m.xid},
		collect: func(out chan<- prometheus.Metric) {
			all := stats()
			out <- gauge(m.known, number(all.Known))
			for _, g := range all.GPUs {
				g.collect(out, all)
			}
		},
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (g GPU) collect(out chan<- prometheus.Metric, of GPUStats) {
	m, index := &gpuMetrics, strconv.Itoa(g.Index)
	set := func(d *prometheus.Desc, value float64) { out <- gauge(d, value, index, g.UUID) }
	out <- gauge(m.info, 1, index, g.UUID, g.Name, of.Driver, of.Endpoint, of.Pool)
	set(m.xid, float64(g.LastXid))
	if g.Lost != "" {
		return // the figures are none
	}
	g.collectMemory(out, index)
	set(m.remapPending, number(g.RemapPending))
	set(m.remapFailed, number(g.RemapFailed))
	set(m.retiredPending, number(g.RetiredPending))
	set(m.recovery, float64(g.RecoveryAction))
	const mega = 1e6
	for _, f := range []struct {
		desc  *prometheus.Desc
		value *uint32
		unit  float64
	}{{m.utilization, g.Utilization, 1}, {m.temperature, g.Temperature, 1}, {m.memoryTemperature, g.MemoryTemperature, 1},
		{m.smClock, g.SMClock, mega}, {m.memoryClock, g.MemoryClock, mega}} {
		if f.value != nil {
			set(f.desc, float64(*f.value)*f.unit)
		}
	}
	if g.Power != nil {
		set(m.power, *g.Power)
	}
	if g.PowerLimit != nil {
		set(m.powerLimit, *g.PowerLimit)
	}
	if g.ECC != nil {
		set(m.corrected, float64(g.ECC.Corrected))
		set(m.uncorrected, float64(g.ECC.Uncorrected))
	}
	if g.ClockReasons != nil {
		g.collectClockReasons(out, index)
	}
}

// collectMemory has the MIG instances of the engine instead of a GPU that is divided.
func (g GPU) collectMemory(out chan<- prometheus.Metric, index string) {
	m := &gpuMetrics
	if len(g.Instances) == 0 {
		out <- gauge(m.memoryUsed, float64(g.MemoryUsed), index, g.UUID)
		out <- gauge(m.memoryTotal, float64(g.MemoryTotal), index, g.UUID)
	}
	for _, i := range g.Instances {
		out <- gauge(m.memoryUsed, float64(i.MemoryUsed), index, i.UUID)
		out <- gauge(m.memoryTotal, float64(i.MemoryTotal), index, i.UUID)
	}
	if g.EngineMemory > 0 {
		out <- gauge(m.engineMemory, float64(g.EngineMemory), index, g.UUID)
	}
}

func (g GPU) collectClockReasons(out chan<- prometheus.Metric, index string) {
	now := map[string]bool{}
	for _, name := range gpu.ClockReasonNames(*g.ClockReasons) {
		now[name] = true
	}
	for _, name := range gpu.AllClockReasons() {
		out <- gauge(gpuMetrics.clockReason, number(now[name]), index, g.UUID, name)
	}
}
