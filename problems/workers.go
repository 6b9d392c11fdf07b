package problems

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"colonnade/fleet"
	"colonnade/internal/wording"
	"colonnade/reasons"
)

// LongStart is how long an engine may start, until that is a problem: large models are loaded, and compiled, for long.
const LongStart = 30 * time.Minute

// OfWorkers returns what the workers of a colo report, of all colos if it is empty: engines that get no requests, or have not answered since their
// start for [LongStart], and GPUs that are broken. The text has no time, so that it is the same as long as nothing changes.
func OfWorkers(t *fleet.Table, colo string, now time.Time) []Problem {
	var workers []*fleet.Worker
	for _, w := range t.Workers() {
		if colo == "" || w.Colo == colo {
			workers = append(workers, w)
		}
	}
	l := &List{}
	explained := l.addGPUs(workers)
	for _, w := range workers {
		key, e := fleet.KindWorker.Key(w.Node), &w.Engine
		switch {
		case explained[w]:
		case e.State == fleet.WorkerOut:
			l.Warnf(reasons.EngineOut, key, "%s: %s gets no requests: %s", key, engineOf(w), cmp.Or(e.Reason, "its worker gives no reason"))
		case e.State == fleet.WorkerStarting && !e.Since.IsZero() && now.Sub(e.Since) >= LongStart:
			l.Warnf(reasons.EngineOut, key, "%s: %s gets no requests: it has been starting for more than %v: %s", key, engineOf(w), LongStart,
				cmp.Or(e.Reason, "its worker gives no reason"))
		case e.State == fleet.WorkerBackoff:
			l.Warnf(reasons.EngineRestarting, key, "%s: %s has ended by itself, and is started again after a pause (%s so far): %s", key, engineOf(w),
				wording.Count(e.Restarts, "restart"), cmp.Or(e.Reason, "its worker gives no reason"))
		}
	}
	return l.All()
}

// addGPUs adds the GPUs that are broken, each once, and returns the workers whose engines are out and use such a GPU.
func (l *List) addGPUs(workers []*fleet.Worker) map[*fleet.Worker]bool {
	explained, seen := map[*fleet.Worker]bool{}, map[string]bool{}
	for _, w := range workers {
		for i := range w.GPUs {
			g := &w.GPUs[i]
			if g.Problem == "" || seen[g.UUID] {
				continue
			}
			seen[g.UUID] = true
			l.addGPU(w, g, workers, explained)
		}
	}
	return explained
}

// addGPU adds a broken GPU that a worker reports.
func (l *List) addGPU(w *fleet.Worker, g *fleet.WorkerGPU, workers []*fleet.Worker, explained map[*fleet.Worker]bool) {
	var out, use []string
	for _, other := range workers {
		if !slices.ContainsFunc(other.Engine.GPUs, g.Has) {
			continue
		}
		if other.Engine.State == fleet.WorkerOut {
			out, explained[other] = append(out, engineOf(other)), true
		} else {
			use = append(use, engineOf(other))
		}
	}
	key, name := fleet.KindWorker.Key(w.Node), g.Problem
	if !strings.HasPrefix(name, "GPU ") {
		name = fmt.Sprintf("GPU %d (%s): %s", g.Index, g.UUID, g.Problem)
	}
	p := l.Warnf(reasons.GPUFailed, key, "%s: machine %s: %s", key, cmp.Or(w.Machine, w.Node), name)
	switch {
	case len(out) > 0:
		p.Effect = wording.FirstOf(out) + " " + get(out) + " no requests; other engines of the pool have the load"
	case len(use) > 0:
		p.Effect = "requests of " + wording.FirstOf(use) + " may fail"
	default:
		p.Effect = "none: no engine that is registered uses it"
	}
}

// get is the verb of some engines.
func get(engines []string) string {
	if len(engines) == 1 {
		return "gets"
	}
	return "get"
}

// engineOf names the engine of a worker, and its pool.
func engineOf(w *fleet.Worker) string {
	text := fleet.KindEndpoint.Key(w.Colo, w.Engine.Endpoint)
	if w.Engine.Pool != "" {
		text += " of pool " + w.Engine.Pool
	}
	return text
}
