package gpu

import (
	"slices"
	"strconv"
	"strings"
)

// Use is a GPU, or a MIG instance of one, that an engine uses.
type Use struct {
	UUID   string `json:"uuid"`             // of the GPU or the MIG instance
	GPU    string `json:"gpu"`              // UUID of the GPU
	Memory uint64 `json:"memory,omitempty"` // bytes of the engine's processes on it; 0 = not known
}

// Uses returns the GPUs of an engine by its process, 0 = not known. The driver's lists of processes say it best. Where they have none of the
// engine's, or other numbers of processes, as in a container, CUDA_VISIBLE_DEVICES of the engine says it. In a container without that
// variable, the engine uses all GPUs that the container has.
func (p Proc) Uses(engine int, gpus []GPU) []Use {
	if engine == 0 {
		return nil
	}
	hosted := p.HasHostPIDs()
	if hosted {
		if found := byProcesses(gpus, p.Family(engine, listed(gpus))); len(found) > 0 {
			return found
		}
	}
	value, ok := p.VisibleDevices(engine)
	switch {
	case ok:
		return Visible(value, gpus)
	case hosted:
		return nil // it has not begun to use one
	default:
		return AllOf(gpus)
	}
}

// listed returns the processes on all GPUs.
func listed(gpus []GPU) []int {
	var pids []int
	for i := range gpus {
		for _, on := range gpus[i].Processes {
			pids = append(pids, on.PID)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

func byProcesses(gpus []GPU, family map[int]bool) []Use {
	var found []Use
	for i := range gpus {
		g := &gpus[i]
		for _, on := range g.Processes {
			if family[on.PID] {
				found = add(found, Use{UUID: g.part(on), GPU: g.UUID}, on.Memory)
			}
		}
	}
	return found
}

func add(to []Use, u Use, memory *uint64) []Use {
	i := slices.IndexFunc(to, func(other Use) bool { return other.UUID == u.UUID })
	if i < 0 {
		i, to = len(to), append(to, u)
	}
	if memory != nil {
		to[i].Memory += *memory
	}
	return to
}

// part returns the UUID of the MIG instance that a process is on, or that of the GPU.
func (g *GPU) part(on Process) string {
	for _, i := range g.Instances {
		if i.GPUInstance == on.GPUInstance && i.Compute == on.Compute {
			return i.UUID
		}
	}
	return g.UUID
}

// AllOf returns all GPUs, and of those that are divided the instances.
func AllOf(gpus []GPU) []Use {
	var found []Use
	for i := range gpus {
		found = append(found, gpus[i].whole()...)
	}
	return found
}

// whole returns a GPU, or its instances if it is divided: CUDA never uses such a GPU as one.
func (g *GPU) whole() []Use {
	if !g.MIG {
		return []Use{{UUID: g.UUID, GPU: g.UUID}}
	}
	var found []Use
	for _, i := range g.Instances {
		found = append(found, Use{UUID: i.UUID, GPU: g.UUID})
	}
	return found
}

// Visible returns the GPUs that CUDA_VISIBLE_DEVICES names: numbers, UUIDs of GPUs and MIG instances, or beginnings of UUIDs that only one
// has. As CUDA does, it ends at the first name that is none; -1 is a usual one. Numbers are those of the driver, by the PCI bus: CUDA's own
// are the same unless a machine has GPUs of several kinds and CUDA_DEVICE_ORDER is not PCI_BUS_ID.
// https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars
func Visible(value string, gpus []GPU) []Use {
	var found []Use
	for name := range strings.SplitSeq(value, ",") {
		uses := named(strings.TrimSpace(name), gpus)
		if len(uses) == 0 {
			break
		}
		for _, u := range uses {
			found = add(found, u, nil)
		}
	}
	return found
}

func named(name string, gpus []GPU) []Use {
	if n, err := strconv.Atoi(name); err == nil {
		i := slices.IndexFunc(gpus, func(g GPU) bool { return g.Index == n })
		if i < 0 {
			return nil
		}
		return gpus[i].whole()
	}
	var found [][]Use
	for i := range gpus {
		g := &gpus[i]
		if begins(g.UUID, name, "GPU-") {
			found = append(found, g.whole())
		}
		for _, part := range g.Instances {
			if begins(part.UUID, name, "MIG-") {
				found = append(found, []Use{{UUID: part.UUID, GPU: g.UUID}})
			}
		}
	}
	if len(found) != 1 {
		return nil // CUDA refuses a beginning that several have
	}
	return found[0]
}

// begins reports whether a name is a UUID or its beginning, and more than what all of them begin with.
func begins(uuid, name, kind string) bool {
	return strings.HasPrefix(uuid, name) && len(name) > len(kind)
}
