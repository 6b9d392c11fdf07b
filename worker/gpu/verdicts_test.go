package gpu

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func xidOf(number uint64) Event {
	return Event{Time: noon, GPU: "GPU-1", Xid: number, GPUInstance: NoInstance, Compute: NoInstance}
}

func readingOf(g ...GPU) Reading { return Reading{Time: noon, Driver: "570.1", GPUs: g} }

// well is a GPU without a fault.
func well() GPU {
	return GPU{Index: 3, UUID: "GPU-1", ECC: &ECC{}, Instances: []Instance{{UUID: "MIG-1", GPUInstance: 1}, {UUID: "MIG-2", GPUInstance: 2}}}
}

// Xids that need a reset or a restart take the GPU out; those of applications, and those that are not in the table, do not. All are noted.
func TestXids(t *testing.T) {
	out := []uint64{46, 48, 54, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143, 151, 155, 156, 158, 160}
	for number := range uint64(200) {
		if number == 0 {
			continue
		}
		var v Verdicts
		v.Reading(readingOf(well()))
		noted := v.Event(xidOf(number))
		if len(noted) != 1 || !strings.Contains(noted[0].Detail, fmt.Sprintf("Xid %d", number)) {
			t.Errorf("Xid %d: noted %+v", number, noted)
		}
		if problem := v.Problem("GPU-1"); (problem != "") != slices.Contains(out, number) {
			t.Errorf("Xid %d: problem %q", number, problem)
		}
	}
	// Those that NVIDIA's device plugin for Kubernetes ignores.
	for _, number := range []uint64{13, 31, 43, 45, 68, 109} {
		if slices.Contains(out, number) || xids[number].action != actionNote {
			t.Errorf("Xid %d takes a GPU out", number)
		}
	}
	var v Verdicts
	v.Reading(readingOf(well()))
	if noted := v.Event(xidOf(79)); noted[0].Kind != fleet.IncidentGPULost || noted[0].GPU != "GPU-1" || noted[0].Time != noon ||
		noted[0].Detail != "GPU 3 (GPU-1): Xid 79, GPU has fallen off the bus; the machine must be restarted" {
		t.Errorf("%+v", noted)
	}
}

// A burst of one Xid is noted once.
func TestBurstOfXids(t *testing.T) {
	var v Verdicts
	count := 0
	for i := range 25 {
		e := xidOf(31)
		e.Time = noon.Add(time.Duration(i) * time.Second)
		count += len(v.Event(e))
	}
	if count != 3 {
		t.Errorf("noted %d times in 25 s, want every 10 s", count)
	}
}

// An error of a MIG instance concerns that instance only; one of the GPU concerns all.
func TestXidOfAnInstance(t *testing.T) {
	var v Verdicts
	v.Reading(readingOf(well()))
	e := xidOf(95)
	e.GPUInstance, e.Compute = 2, 0
	v.Event(e)
	if v.Problem("MIG-1") != "" || v.Problem("GPU-1") != "" || v.Problem("MIG-2") == "" {
		t.Errorf("%q, %q, %q", v.Problem("MIG-1"), v.Problem("GPU-1"), v.Problem("MIG-2"))
	}
	v.Event(xidOf(79))
	if v.Problem("MIG-1") == "" || v.Problem("GPU-1") == "" {
		t.Errorf("%q, %q", v.Problem("MIG-1"), v.Problem("GPU-1"))
	}
}

// step is a reading, what is noted of it, and the problem after it.
type step struct {
	change  func(*GPU)
	noted   []string // kinds
	problem string   // a part of it; "" = none
}

func steps(t *testing.T, all ...step) {
	t.Helper()
	var v Verdicts
	g := well()
	for i, s := range all {
		ecc := *g.ECC
		g.ECC = &ecc
		if s.change != nil {
			s.change(&g)
		}
		var kinds []string
		for _, incident := range v.Reading(readingOf(g)) {
			kinds = append(kinds, incident.Kind)
		}
		problem := v.Problem("GPU-1")
		if !slices.Equal(kinds, s.noted) || (problem == "") != (s.problem == "") || !strings.Contains(problem, s.problem) {
			t.Errorf("step %d: noted %v, problem %q; want %v, %q", i, kinds, problem, s.noted, s.problem)
		}
	}
}

func TestErrorsOfMemory(t *testing.T) {
	uncorrected := func(n uint64) func(*GPU) { return func(g *GPU) { g.ECC.Uncorrected = n } }
	ecc, problem := []string{fleet.IncidentECC}, "errors of its memory could not be corrected"
	// Errors before the first reading are of the time before a restart of the worker.
	steps(t, step{uncorrected(2), nil, ""}, step{nil, nil, ""}, step{uncorrected(3), ecc, "1 " + problem}, step{nil, nil, problem},
		step{uncorrected(5), ecc, problem},
		step{func(g *GPU) { g.ECC = nil }, nil, problem}, // the driver says nothing for once
	)
	// Corrected ones are no problem.
	steps(t, step{nil, nil, ""}, step{func(g *GPU) { g.ECC.Corrected = 1000 }, nil, ""})
	// A reset, which the counters show.
	steps(t, step{uncorrected(1), nil, ""}, step{uncorrected(2), ecc, problem}, step{uncorrected(0), nil, ""})
	// Memory that waits to be replaced is noted, and no problem: the GPU does not use it any more.
	steps(t, step{nil, nil, ""}, step{func(g *GPU) { g.RemapPending = true }, ecc, ""}, step{nil, nil, ""},
		step{func(g *GPU) { g.RemapPending = false }, nil, ""}, step{func(g *GPU) { g.RetiredPending = true }, ecc, ""})
	steps(t, step{nil, nil, ""}, step{func(g *GPU) { g.RemapFailed = true }, nil, "could not be remapped"},
		step{func(g *GPU) { g.RemapFailed = false }, nil, ""})
}

// The driver says itself what a GPU needs, and when it does not need it any more.
func TestRecoveryActions(t *testing.T) {
	action := func(n uint32) func(*GPU) { return func(g *GPU) { g.RecoveryAction = n } }
	xid := []string{fleet.IncidentXid}
	steps(t, step{nil, nil, ""}, step{action(1), xid, "asks for a reset of the GPU"}, step{nil, nil, "asks for a reset"},
		step{action(2), xid, "restart of the machine"}, step{action(0), nil, ""}, step{action(3), xid, ""}, step{action(99), xid, ""})
}

// A GPU that does not answer, or that is not listed any more, is out until it is back.
func TestLost(t *testing.T) {
	lost := []string{fleet.IncidentGPULost}
	steps(t, step{nil, nil, ""}, step{func(g *GPU) { g.Lost = "it has fallen off the bus" }, lost, "GPU 3 (GPU-1) is lost: it has fallen off the bus"},
		step{nil, nil, "is lost"}, step{func(g *GPU) { g.Lost = "" }, nil, ""})
	var v Verdicts
	other := GPU{Index: 4, UUID: "GPU-2"}
	v.Reading(readingOf(well(), other))
	if noted := v.Reading(readingOf(other)); len(noted) != 1 || noted[0].Kind != fleet.IncidentGPULost || noted[0].GPU != "GPU-1" {
		t.Errorf("%+v", noted)
	}
	if v.Problem("GPU-1") == "" || v.Problem("MIG-1") == "" || v.Problem("GPU-2") != "" {
		t.Errorf("%q, %q, %q", v.Problem("GPU-1"), v.Problem("MIG-1"), v.Problem("GPU-2"))
	}
	if noted := v.Reading(Reading{None: "no driver"}); len(noted) != 0 || v.Problem("GPU-1") == "" {
		t.Errorf("a reading without GPUs: %+v, %q", noted, v.Problem("GPU-1"))
	}
	if noted := v.Reading(readingOf(well(), other)); len(noted) != 0 || v.Problem("GPU-1") != "" {
		t.Errorf("back: %+v, %q", noted, v.Problem("GPU-1"))
	}
}

// A verdict by an Xid stays until the GPU has been reset or the driver is another one.
func TestVerdictStays(t *testing.T) {
	f := func(then func(*Verdicts), want bool) {
		t.Helper()
		var v Verdicts
		v.Event(xidOf(119)) // also before the first reading
		v.Reading(readingOf(well()))
		then(&v)
		if got := v.Problem("GPU-1") != ""; got != want {
			t.Errorf("problem %q", v.Problem("GPU-1"))
		}
	}
	f(func(v *Verdicts) { v.Reading(readingOf(well())) }, true)
	f(func(v *Verdicts) { v.Reading(Reading{None: "the driver hangs"}) }, true)
	f(func(v *Verdicts) {
		r := readingOf(well())
		r.Driver = "570.2"
		v.Reading(r)
	}, false)
	f(func(v *Verdicts) {
		g := well()
		g.Lost = "lost"
		v.Reading(readingOf(g))
		v.Reading(readingOf(well()))
	}, false)
}
