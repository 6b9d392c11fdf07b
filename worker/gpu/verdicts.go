package gpu

import (
	"fmt"
	"strings"
	"time"

	"colonnade/fleet"
)

// sameXid is the time in which an Xid of a GPU is noted once: one fault makes several.
const sameXid = 10 * time.Second

// Verdicts decides which GPUs no request should run on. The zero value has seen nothing. It is not safe for concurrent use.
//
// A verdict by an Xid or by counters of ECC errors stays until the GPU has been reset, which shows as counters that begin anew, as a GPU that
// was lost and is back, or as another driver, or until the process ends that has the Verdicts. A verdict by what the driver reports about
// the GPU's present state ends with that state: a recovery action, a GPU that does not answer, a row that could not be remapped.
type Verdicts struct {
	driver string
	gpus   map[string]*verdict
}

// verdict is what is known of one GPU.
type verdict struct {
	index   int
	stays   map[string]string    // why it is bad until it is reset, by the UUID of the GPU or of a MIG instance
	now     string               // why it is bad at present
	lost    bool                 // it did not answer at the last reading
	pending bool                 // memory waits to be replaced at the next reset
	action  uint32               // what the driver asks for
	ecc     *ECC                 // at the last reading
	seen    map[uint64]time.Time // when each Xid was noted last
	lastXid uint64
	parts   []Instance
}

// Event takes an event in, and returns what is to be noted.
func (v *Verdicts) Event(e Event) []fleet.Incident {
	g := v.of(e.GPU)
	if e.Xid == 0 { // the counters of the next reading say more
		return nil
	}
	g.lastXid = e.Xid
	x := xids[e.Xid]
	text := fmt.Sprintf("%s: %s; %s", g.name(e.GPU), xidText(e.Xid), x.action.needs())
	if x.action.out() {
		g.stay(g.part(e), text)
	}
	if last, ok := g.seen[e.Xid]; ok && e.Time.Sub(last) < sameXid {
		return nil
	}
	g.seen[e.Xid] = e.Time
	kind := fleet.IncidentXid
	if e.Xid == 79 {
		kind = fleet.IncidentGPULost
	}
	return []fleet.Incident{{Time: e.Time, Kind: kind, GPU: e.GPU, Detail: text}}
}

// Reading takes a reading in, and returns what is to be noted. One without GPUs says nothing about them.
func (v *Verdicts) Reading(r Reading) []fleet.Incident {
	if r.None != "" {
		return nil
	}
	if v.driver != "" && v.driver != r.Driver {
		v.gpus = nil
	}
	v.driver = r.Driver
	present := map[string]bool{}
	var found []fleet.Incident
	for i := range r.GPUs {
		g := &r.GPUs[i]
		present[g.UUID] = true
		found = append(found, v.of(g.UUID).read(g, r.Time)...)
	}
	for uuid, g := range v.gpus {
		if uuid != "" && !present[uuid] {
			found = append(found, g.lose(uuid, "the driver does not list it any more", r.Time)...)
		}
	}
	return found
}

// Problem says why no request should run on a GPU or on a MIG instance; "" if it is well.
func (v *Verdicts) Problem(uuid string) string {
	if g := v.gpus[uuid]; g != nil {
		return g.problem(uuid)
	}
	for parent, g := range v.gpus {
		for _, i := range g.parts {
			if i.UUID == uuid {
				if text := g.stays[uuid]; text != "" {
					return text
				}
				return g.problem(parent)
			}
		}
	}
	return ""
}

// LastXid returns the number of the last Xid of a GPU since the process began; 0 if there was none.
func (v *Verdicts) LastXid(uuid string) uint64 {
	if g := v.gpus[uuid]; g != nil {
		return g.lastXid
	}
	return 0
}

func (v *Verdicts) of(uuid string) *verdict {
	if v.gpus == nil {
		v.gpus = map[string]*verdict{}
	}
	g := v.gpus[uuid]
	if g == nil {
		g = &verdict{index: -1, stays: map[string]string{}, seen: map[uint64]time.Time{}}
		v.gpus[uuid] = g
	}
	return g
}

func (g *verdict) name(uuid string) string {
	switch {
	case uuid == "":
		return "a GPU that the driver does not name"
	case g.index < 0:
		return uuid
	}
	return fmt.Sprintf("GPU %d (%s)", g.index, uuid)
}

func (g *verdict) problem(uuid string) string {
	if text := g.stays[uuid]; text != "" {
		return text
	}
	return g.now
}

// stay keeps the first reason: later ones mostly follow from it.
func (g *verdict) stay(uuid, text string) {
	if g.stays[uuid] == "" {
		g.stays[uuid] = text
	}
}

// part returns the UUID of the MIG instance that an event is about, or that of the GPU.
func (g *verdict) part(e Event) string {
	for _, i := range g.parts {
		if i.GPUInstance == e.GPUInstance && (i.Compute == e.Compute || e.Compute == NoInstance) {
			return i.UUID
		}
	}
	return e.GPU
}

func (g *verdict) read(now *GPU, at time.Time) []fleet.Incident {
	g.index = now.Index
	if now.Lost != "" {
		return g.lose(now.UUID, now.Lost, at)
	}
	if g.lost || reset(g.ecc, now.ECC) {
		g.stays = map[string]string{}
	}
	g.lost, g.parts = false, now.Instances
	found := g.count(now, at)
	g.state(now)
	if pending := now.RemapPending || now.RetiredPending; pending != g.pending {
		if g.pending = pending; pending {
			found = append(found, g.incident(now.UUID, "memory with errors is replaced at the next reset; until then the GPU goes on", at))
		}
	}
	return append(found, g.asked(now, at)...)
}

// reset reports whether counters have begun anew.
func reset(before, now *ECC) bool {
	return before != nil && now != nil && (now.Uncorrected < before.Uncorrected || now.Corrected < before.Corrected)
}

// count notes errors of memory that could not be corrected since the last reading. Those of the first reading are older than the process.
func (g *verdict) count(now *GPU, at time.Time) []fleet.Incident {
	before := g.ecc
	if now.ECC == nil {
		return nil
	}
	g.ecc = now.ECC
	if before == nil || now.ECC.Uncorrected <= before.Uncorrected {
		return nil
	}
	i := g.incident(now.UUID, fmt.Sprintf("%d errors of its memory could not be corrected; it needs a reset", now.ECC.Uncorrected-before.Uncorrected), at)
	g.stay(now.UUID, i.Detail)
	return []fleet.Incident{i}
}

// state decides by what the driver reports about the present.
func (g *verdict) state(now *GPU) {
	var bad []string
	if a := recoveryActions[now.RecoveryAction]; a.out {
		bad = append(bad, a.text)
	}
	if now.RemapFailed {
		bad = append(bad, "a row of its memory could not be remapped")
	}
	g.now = ""
	if len(bad) > 0 {
		g.now = g.name(now.UUID) + ": " + strings.Join(bad, ", and ")
	}
}

// asked notes that the driver asks for something else than before.
func (g *verdict) asked(now *GPU, at time.Time) []fleet.Incident {
	before := g.action
	g.action = now.RecoveryAction
	if before == now.RecoveryAction || now.RecoveryAction == 0 {
		return nil
	}
	text := g.name(now.UUID) + ": " + RecoveryText(now.RecoveryAction)
	return []fleet.Incident{{Time: at, Kind: fleet.IncidentXid, GPU: now.UUID, Detail: text}}
}

// lose notes that a GPU does not answer, once until it does.
func (g *verdict) lose(uuid, why string, at time.Time) []fleet.Incident {
	g.now = g.name(uuid) + " is lost: " + why
	if g.lost {
		return nil
	}
	g.lost = true
	return []fleet.Incident{{Time: at, Kind: fleet.IncidentGPULost, GPU: uuid, Detail: g.now}}
}

func (g *verdict) incident(uuid, text string, at time.Time) fleet.Incident {
	return fleet.Incident{Time: at, Kind: fleet.IncidentECC, GPU: uuid, Detail: g.name(uuid) + ": " + text}
}
