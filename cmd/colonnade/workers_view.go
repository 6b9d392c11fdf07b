package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"colonnade/fleet"
	"colonnade/problems"
)

const (
	// mostMachines is how many machines have details; those that need attention first.
	mostMachines = 8
	// recent is the age up to which the last incident of a worker is shown.
	recent = 24 * time.Hour
)

// draw writes the machines for people.
func (s *workersState) draw(out *screen, source string) {
	if s.Etcd != "" {
		source = "etcd " + s.Etcd
	}
	out.paragraph(s.Time.Local().Format(time.DateTime)+"  ", out.paint(text.Faint, source))
	shown := &fleetState{Problems: s.Problems}
	drawProblems(out, shown, problems.SeverityError)
	drawProblems(out, shown, problems.SeverityWarning)
	if len(s.Machines) == 0 {
		out.line(painted("\n"), "no engine with a worker; colonnade register starts one")
		return
	}
	if len(s.Machines) > 1 {
		out.line()
		s.drawOverview(out)
	}
	shownFirst := slices.Clone(s.Machines)
	slices.SortStableFunc(shownFirst, func(a, b machineState) int { return attention(&a) - attention(&b) })
	for i := range min(len(shownFirst), mostMachines) {
		out.line()
		shownFirst[i].draw(out, s.Time)
	}
	if n := len(shownFirst) - mostMachines; n > 0 {
		out.line(painted("\n"), out.paint(text.Faint, count(n, "machine")+" without details; -colo and -pool select"))
	}
}

// attention orders machines: those that need it first.
func attention(m *machineState) int {
	if m.isWell() {
		return 1
	}
	return 0
}

// drawOverview writes a line for each machine.
func (s *workersState) drawOverview(out *screen) {
	var rows [][]any
	for i := range s.Machines {
		m := &s.Machines[i]
		t := m.totals()
		gpus := painted(fmt.Sprint(len(m.GPUs)))
		if t.broken > 0 {
			gpus = out.paint(text.FgRed, fmt.Sprintf("%d/%d BROKEN", t.broken, len(m.GPUs)))
		}
		rows = append(rows, []any{out.paint(text.Bold, m.Machine), m.colos(), gpus, t.memory(out), t.memoryText(), t.utilizationText(), t.powerText(), m.engines(out)})
	}
	out.table("", []string{"~MACHINE", "~COLO", ">GPUS", "", ">MEMORY", ">UTIL", "?>POWER", "~ENGINES"}, rows)
}

// colos returns the colos of the machine's engines.
func (m *machineState) colos() string {
	var names []string
	for i := range m.Workers {
		if !slices.Contains(names, m.Workers[i].Colo) {
			names = append(names, m.Workers[i].Colo)
		}
	}
	return strings.Join(names, ", ")
}

// engines counts the machine's engines by state.
func (m *machineState) engines(out *screen) painted {
	counts := map[string]int{}
	for i := range m.Workers {
		counts[m.Workers[i].Engine.State]++
	}
	var texts []string
	for _, state := range []string{fleet.WorkerServing, fleet.WorkerStarting, fleet.WorkerDraining, fleet.WorkerOut, fleet.WorkerBackoff} {
		if n := counts[state]; n > 0 {
			texts = append(texts, string(out.paint(workerColour(state), fmt.Sprintf("%d %s", n, shoutedState(state)))))
		}
	}
	return painted(strings.Join(texts, ", "))
}

// draw writes the GPUs and the engines of a machine.
func (m *machineState) draw(out *screen, now time.Time) {
	var notes []string
	if m.Driver != "" {
		notes = append(notes, "driver "+m.Driver)
	}
	if len(m.GPUs) == 0 {
		notes = append(notes, "no GPUs known: "+cmp.Or(m.NoGPUs, "its workers have reported none"))
	}
	out.paragraph("", out.paint(text.Bold, m.Machine+" in "+m.colos())+"  "+out.paint(text.Faint, strings.Join(notes, "; ")))
	m.drawGPUs(out)
	m.drawEngines(out, now)
	for i := range m.Workers {
		m.Workers[i].drawNotes(out, now)
	}
	at := slices.IndexFunc(m.Workers, func(w workerState) bool { return w.Error != "" })
	if at >= 0 && slices.ContainsFunc(m.GPUs, func(g gpuState) bool { return g.Live == nil }) {
		out.paragraph("  ", out.paint(text.Faint, fmt.Sprintf("no live figures: %s: %s", m.Workers[at].Node, m.Workers[at].Error)))
	}
}

// drawNotes writes why an engine does not serve, and what has happened to it last.
func (w *workerState) drawNotes(out *screen, now time.Time) {
	e := &w.Engine
	if e.Reason != "" {
		out.paragraph("  "+shoutedState(e.State)+"  ", e.Endpoint+": "+e.Reason)
	}
	n := len(w.Incidents)
	if n == 0 || now.Sub(w.Incidents[n-1].Time) >= recent {
		return
	}
	last := w.Incidents[n-1]
	if last.Detail == "" || !strings.Contains(e.Reason, last.Detail) {
		out.paragraph("  "+since(last.Time, now)+" ago  ", fmt.Sprintf("%s: %s (%s)", e.Endpoint, cmp.Or(last.Detail, last.Kind), last.Kind))
	}
}

func (m *machineState) drawGPUs(out *screen) {
	var rows [][]any
	for i := range m.GPUs {
		g := &m.GPUs[i]
		t := totals{}
		t.add(g)
		name := g.Name
		if n := len(g.MIG); n > 0 {
			name = strings.TrimSpace(name + " (" + count(n, "MIG instance") + ")")
		}
		rows = append(rows, []any{g.Index, name, t.memory(out), t.memoryText(), t.utilizationText(), t.powerText(), t.temperatureText(), strings.Join(g.Engines, ", "), g.note(out)})
	}
	if len(rows) > 0 {
		out.table("  ", []string{">GPU", "~NAME", "", ">MEMORY", ">UTIL", "?>POWER", "?>TEMP", "~ENGINES", "~"}, rows)
	}
}

// Bits of ClockReasons: https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
const (
	slowByHeat  = 0x20 | 0x40
	slowByPower = 0x80 // the power brake
	slow        = 0x08
)

// note says what is wrong with a GPU, or what slows it.
func (g *gpuState) note(out *screen) painted {
	switch {
	case g.Problem != "":
		return out.paint(text.FgRed, strings.TrimPrefix(g.Problem, fmt.Sprintf("GPU %d (%s): ", g.Index, g.UUID)))
	case g.Live == nil:
		return ""
	case g.Live.Lost != "":
		return out.paint(text.FgRed, "lost: "+g.Live.Lost)
	case g.Live.ClockReasons&slowByHeat != 0:
		return out.paint(text.FgYellow, "slowed by heat")
	case g.Live.ClockReasons&slowByPower != 0:
		return out.paint(text.FgYellow, "slowed by the power brake")
	case g.Live.ClockReasons&slow != 0:
		return out.paint(text.FgYellow, "slowed by the hardware")
	}
	return ""
}

func (m *machineState) drawEngines(out *screen, now time.Time) {
	var rows [][]any
	for i := range m.Workers {
		w := &m.Workers[i]
		e := &w.Engine
		state := shoutedState(e.State)
		if !e.Since.IsZero() {
			state += " for " + since(e.Since, now)
		}
		rows = append(rows, []any{w.Colo + "/" + e.Endpoint, cmp.Or(e.Pool, "-"), e.Software, e.Restarts, m.numbers(e.GPUs), out.paint(workerColour(e.State), state)})
	}
	out.table("  ", []string{"~ENGINE", "~POOL", "?~SOFTWARE", "?>RESTARTS", "~GPUS", "~STATE"}, rows)
}

// since returns how long ago something was, in one unit. Another machine's clock may be ahead.
func since(then, now time.Time) string {
	d := max(0, now.Sub(then))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// numbers returns the numbers of the GPUs with some UUIDs, "-" for none.
func (m *machineState) numbers(uuids []string) string {
	var numbers []int
	for i := range m.GPUs {
		if g := &m.GPUs[i]; slices.ContainsFunc(uuids, g.Has) {
			numbers = append(numbers, g.Index)
		}
	}
	if len(numbers) == 0 {
		return "-"
	}
	slices.Sort(numbers)
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ",")
}

// shoutedState returns the states that need attention in capitals.
func shoutedState(state string) string {
	if state == fleet.WorkerOut || state == fleet.WorkerBackoff {
		return strings.ToUpper(state)
	}
	return state
}

func workerColour(state string) text.Color {
	switch state {
	case fleet.WorkerServing:
		return text.FgGreen
	case fleet.WorkerOut, fleet.WorkerBackoff:
		return text.FgRed
	}
	return text.FgYellow
}

// totals sums up GPUs. Figures that none of them has are not shown.
type totals struct {
	broken            int
	used, total       float64 // bytes
	live              bool    // used is known
	utilization       float64 // sum of percent
	utilized          int     // GPUs that report it
	power, powerLimit float64 // W
	temperature       *float64
}

func (m *machineState) totals() (t totals) {
	for i := range m.GPUs {
		t.add(&m.GPUs[i])
	}
	return t
}

func (t *totals) add(g *gpuState) {
	if g.isBroken() {
		t.broken++
	}
	f := g.Live
	if f == nil || f.MemoryTotal == 0 {
		t.total += float64(g.MemoryMiB) * (1 << 20)
	} else {
		t.live = true
		t.total, t.used = t.total+float64(f.MemoryTotal), t.used+float64(f.MemoryUsed)
	}
	if f == nil {
		return
	}
	if f.Utilization != nil {
		t.utilization, t.utilized = t.utilization+*f.Utilization, t.utilized+1
	}
	if f.Power != nil {
		t.power += *f.Power
	}
	if f.PowerLimit != nil {
		t.powerLimit += *f.PowerLimit
	}
	t.temperature = f.Temperature
}

func (t *totals) memory(out *screen) painted {
	if !t.live || out.width > 0 && out.width < barWidth {
		return ""
	}
	return out.bar(int(t.used/(1<<20)), int(t.total/(1<<20)), text.FgGreen)
}

func (t *totals) memoryText() string {
	bytes, unit := float64(1<<30), " GiB"
	if t.total >= 1<<40 {
		bytes, unit = 1<<40, " TiB"
	}
	switch {
	case t.total == 0:
		return ""
	case !t.live:
		return figure(t.total/bytes) + unit
	}
	return figure(t.used/bytes) + "/" + figure(t.total/bytes) + unit
}

func (t *totals) utilizationText() string {
	if t.utilized == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f%%", t.utilization/float64(t.utilized))
}

func (t *totals) powerText() string {
	switch {
	case t.power == 0:
		return ""
	case t.powerLimit == 0:
		return fmt.Sprintf("%.0f W", t.power)
	}
	return fmt.Sprintf("%.0f/%.0f W", t.power, t.powerLimit)
}

func (t *totals) temperatureText() string {
	if t.temperature == nil {
		return ""
	}
	return fmt.Sprintf("%.0f°C", *t.temperature)
}
