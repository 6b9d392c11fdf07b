package telemetry

import (
	"slices"

	"colonnade/analytics/metrics"
	"colonnade/worker/gpu"
)

// stats returns the figures of the engine's GPUs. Those of other GPUs are exported by the workers of other engines, so that sums over a
// machine count each GPU once.
func (s *source) stats() metrics.GPUStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := metrics.GPUStats{Driver: s.reading.Driver, Known: s.reading.None == "" && !s.reading.Time.IsZero(), Endpoint: s.engine.Endpoint, Pool: s.engine.Pool}
	for i := range s.reading.GPUs {
		g := &s.reading.GPUs[i]
		own := metrics.GPU{GPU: g, LastXid: s.lastXid[g.UUID]}
		used := false
		for _, u := range s.uses {
			if u.GPU == g.UUID {
				used = true
				own.EngineMemory += u.Memory
				own.Instances = append(own.Instances, instance(g, u)...)
			}
		}
		if used {
			all.GPUs = append(all.GPUs, own)
		}
	}
	return all
}

// instance returns the MIG instance of a use, if it is one.
func instance(g *gpu.GPU, u gpu.Use) []gpu.Instance {
	i := slices.IndexFunc(g.Instances, func(i gpu.Instance) bool { return i.UUID == u.UUID })
	if i < 0 {
		return nil
	}
	return g.Instances[i : i+1]
}
