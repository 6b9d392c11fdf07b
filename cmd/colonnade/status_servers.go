package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"colonnade/fleet"
	"colonnade/homes"
	"colonnade/permits"
	"colonnade/problems"
	"colonnade/reasons"
)

// blockedLimit is how long an engine may have no server that grants on it. After a server that has fallen silent, it takes 17 s.
const blockedLimit = 20 * time.Second

// engines returns the ownership of the engines of a pool that are in one state.
func (p *poolView) engines(state string) (some []homes.EngineState) {
	for _, o := range p.Ownership {
		if o.State == state {
			some = append(some, o)
		}
	}
	return some
}

// ownership returns that of an engine by its URL; empty if the server does not report it.
func (p *poolView) ownership(url string) homes.EngineState {
	for _, o := range p.Ownership {
		if o.URL == url {
			return o
		}
	}
	return homes.EngineState{}
}

// whereabouts names the server that grants the permits of the pool.
func (p *poolView) whereabouts() string {
	switch {
	case !p.isHome:
		return "no server of the colo says that it is the home, as " + p.server.Node + " reports"
	case len(p.others) > 0:
		return fmt.Sprintf("home %s, one of %d servers", p.server.Node, 1+len(p.others))
	}
	return "server " + p.server.Node
}

// waitsFor says why an engine is not granted yet, and for how long.
func (p *poolView) waitsFor(o homes.EngineState) string {
	why := ""
	if !o.Since.IsZero() {
		why = " for " + brief(max(p.server.answered.Sub(o.Since), 0))
	}
	if o.Why != "" {
		why += ": " + o.Why
	}
	if o.BlockedBy != "" {
		why += " (" + o.BlockedBy + ")"
	}
	return why
}

// takenBy says which requests take slots of an endpoint beside those of the pool.
func (p *poolView) takenBy(e permits.EndpointStats) string {
	elsewhere := min(max(p.ownership(e.URL).HeldElsewhere, 0), e.Taken)
	says := ""
	if elsewhere > 0 {
		says = fmt.Sprintf(", %d held by other servers", elsewhere)
	}
	if e.Taken > elsewhere {
		says += fmt.Sprintf(", %d held for another pool", e.Taken-elsewhere)
	}
	return says
}

// drawOthers writes what the other servers of the colo still have of the pool: requests, and engines.
func (p *poolView) drawOthers(out *screen) {
	var rows [][]any
	for i := range p.others {
		o := &p.others[i]
		owned, wanted := len(o.engines(homes.StateOwned)), len(o.engines(homes.StateWanted))
		if o.Held+o.Queued+owned+wanted > 0 {
			rows = append(rows, []any{o.server.Node, o.Held, o.Queued, owned, wanted, cmp.Or(o.Home, "-")})
		}
	}
	if len(rows) > 0 {
		out.table("  ", []string{"~OTHER SERVER", ">HELD", ">WAITING", ">OWNED", ">WANTED", "~ITS HOME"}, rows)
	}
}

// serverRow is what one colo server has, of all pools that are shown.
type serverRow struct {
	node *nodeState

	homes, held, queued, owned, wanted, onOther int
}

// drawServers writes a line for each colo server, if a colo has several, or if one of them waits for an engine.
func drawServers(out *screen, s *fleetState) {
	rows, several := serverRows(s)
	if !several {
		return
	}
	var lines [][]any
	for _, r := range rows {
		writtenOff := ""
		if n := r.node.Config.WrittenOff; n > 0 {
			writtenOff = fmt.Sprint(n)
		}
		lines = append(lines, []any{
			out.paint(text.Bold, r.node.Place), out.paint(text.Bold, r.node.Node), r.homes, r.held, r.queued, r.owned,
			out.paint(waitColour(r.wanted), r.wanted), out.paint(waitColour(r.onOther), r.onOther), out.paint(text.FgRed, writtenOff), r.notes(out),
		})
	}
	out.line()
	out.table("", []string{"~COLO", "~SERVER", ">HOME OF", ">HELD", ">WAITING", "?>OWNED", "?>WANTED", "?>ELSEWHERE", "?>WRITTEN OFF", "~"}, lines)
}

func waitColour(n int) text.Color {
	if n > 0 {
		return text.FgYellow
	}
	return text.FgGreen
}

func serverRows(s *fleetState) (rows []serverRow, several bool) {
	servers := map[string]int{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Config == nil || n.Role != roleColo {
			continue
		}
		r := serverRow{node: n}
		for j := range n.Pools {
			p := poolView{PoolState: &n.Pools[j]}
			if isHome(p.PoolState) {
				r.homes++
			}
			r.held, r.queued = r.held+p.Held, r.queued+p.Queued
			r.owned, r.wanted = r.owned+len(p.engines(homes.StateOwned)), r.wanted+len(p.engines(homes.StateWanted))
			for _, o := range p.Ownership {
				if o.State != homes.StateElsewhere {
					r.onOther += o.HeldElsewhere
				}
			}
		}
		servers[n.Place]++
		several = several || servers[n.Place] > 1 || r.wanted > 0 || n.Config.WrittenOff > 0
		rows = append(rows, r)
	}
	return rows, several
}

func (r *serverRow) notes(out *screen) painted {
	switch {
	case r.node.State == fleet.StateDraining || r.node.NotReady == fleet.StateDraining:
		return out.paint(text.FgYellow, "draining")
	case r.node.NotReady != "":
		return out.paint(text.FgRed, "NOT READY")
	}
	return ""
}

// addBlocked adds the engines that a server has waited for too long.
func addBlocked(l *problems.List, s *fleetState) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		blocked := map[string][]string{}
		for j := range n.Pools {
			for _, o := range n.Pools[j].Ownership {
				if o.State == homes.StateWanted && !o.Since.IsZero() && n.answered.Sub(o.Since) > blockedLimit {
					by := o.Why
					if o.BlockedBy != "" {
						by += " (record " + fleet.KindRecord.Key(n.Place, o.BlockedBy) + ")"
					}
					blocked[by] = append(blocked[by], o.URL)
				}
			}
		}
		for _, by := range slices.Sorted(maps.Keys(blocked)) {
			urls := slices.Sorted(slices.Values(blocked[by]))
			l.Errorf(reasons.EngineBlocked, n.Document, "%s: grants nothing on %s for more than %s: %s", n.name(), firstOf(urls), blockedLimit, strings.TrimSpace(by))
		}
	}
}
