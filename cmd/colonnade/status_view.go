package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"colonnade/colo"
	"colonnade/fleet"
	"colonnade/homes"
	"colonnade/permits"
	"colonnade/problems"
	"colonnade/reasons"
)

const (
	barWidth  = 120 // columns of a terminal that has room for bars
	manyPools = 8   // if more pools are shown, idle ones have no details
)

// poolView is a pool of a colo, as its home reports it, and what has changed since the poll before. That is empty if it is not
// known: at first, when the server has been restarted, since its counters then begin anew, and when the home is another one.
type poolView struct {
	*colo.PoolState
	server           *nodeState // that reports it
	isHome           bool       // the server is the home of the pool
	others           []poolView // what the other servers of the colo report
	elsewhere        bool       // another colo has engines of the pool
	workers          []*fleet.Worker
	grants, refusals string // in a second
	full             string // share of the time in which no slot was free
}

// refused counts refusals that a client may have seen.
func refused(p *colo.PoolState) (n uint64) {
	for reason, count := range p.Refused {
		if !wentOn(p, reason) {
			n += count
		}
	}
	return n
}

// wentOn reports whether another colo is tried after a reason: after busy, and where a colo has no engine of the pool at all.
func wentOn(p *colo.PoolState, reason permits.Reason) bool {
	return reason == permits.Busy || reason == permits.NoEndpoint && len(p.Endpoints) == 0
}

// poolViews compares the pools of a state with those of the poll before.
func poolViews(s *fleetState, before []poolView) []poolView {
	var pools []poolView
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for j := range n.Pools {
			p := poolView{PoolState: &n.Pools[j], server: n, isHome: isHome(&n.Pools[j])}
			at := slices.IndexFunc(pools, func(q poolView) bool { return q.server.Place == n.Place && q.Pool == p.Pool })
			if at < 0 {
				pools = append(pools, p)
			} else {
				pools[at] = pools[at].merge(p)
			}
		}
	}
	for i := range pools {
		p := &pools[i]
		if s.table != nil {
			p.workers = s.table.Workers()
		}
		p.elsewhere = slices.ContainsFunc(pools, func(q poolView) bool {
			return q.Pool == p.Pool && q.server.Place != p.server.Place && len(q.Endpoints) > 0
		})
		at := slices.IndexFunc(before, func(b poolView) bool { return b.server.registration == p.server.registration && b.Pool == p.Pool })
		if at >= 0 {
			p.compare(before[at].PoolState, p.server.answered.Sub(before[at].server.answered).Seconds())
		}
	}
	return pools
}

// isHome reports whether a pool was reported by its home. A server of an older version is alone in its colo.
func isHome(p *colo.PoolState) bool { return p.Here || p.Home == "" }

// merge returns the view of a pool that two servers of a colo report. The home's own report counts.
func (p poolView) merge(q poolView) poolView {
	if q.isHome && !p.isHome {
		p, q = q, p
		p.others, q.others = q.others, nil
	}
	p.others = append(p.others, q)
	return p
}

// compare computes what has changed since an earlier state.
func (p *poolView) compare(earlier *colo.PoolState, seconds float64) {
	granted, refused := float64(p.Granted)-float64(earlier.Granted), float64(refused(p.PoolState))-float64(refused(earlier))
	if granted >= 0 && refused >= 0 && seconds > 0 {
		p.grants, p.refusals = figure(granted/seconds)+"/s", figure(refused/seconds)+"/s"
		p.full = fmt.Sprintf(", %.0f%% of the time since the last poll", min(100*(p.FullSeconds-earlier.FullSeconds)/seconds, 100))
	}
}

// draw writes the last state for people.
func (c *statusCommand) draw(out *screen) {
	if c.showWorkers {
		c.workers.draw(out, c.admin)
		return
	}
	s := c.state
	source := c.admin
	if s.Etcd != "" {
		source = "etcd " + s.Etcd
	} else if len(s.Nodes) == 1 && s.Nodes[0].Config != nil && s.Nodes[0].Config.Source != "" {
		source = fmt.Sprintf("%s at %s, documents: %s", s.Nodes[0].Node, source, s.Nodes[0].Config.Source)
	}
	out.paragraph(s.Time.Local().Format(time.DateTime)+"  ", out.paint(text.Faint, source))
	drawProblems(out, s, problems.SeverityError)
	captures := drawCaptures(out, s)
	if n := len(s.Problems) - s.count(problems.SeverityError) - captures; n > 0 {
		out.line(painted("\n"), out.paint(text.FgYellow, count(n, "warning")), "; colonnade config status"+c.flag()+" lists them")
	}
	pools := c.views
	if len(pools) > 0 {
		out.line()
		drawOverview(out, pools)
	}
	drawServers(out, s)
	drawSinks(out, s)
	idle := 0
	for i := range pools {
		if len(pools) > manyPools && pools[i].isIdle() {
			idle++
			continue
		}
		out.line()
		pools[i].draw(out, c.query.pool != "")
	}
	if idle > 0 {
		out.line(painted("\n"), out.paint(text.Faint, count(idle, "idle pool")+" without details; -pool shows them"))
	}
}

// flag is the flag that config status needs to ask the same nodes.
func (c *statusCommand) flag() string {
	if c.admin == "" {
		return ""
	}
	return " -admin " + c.admin
}

// drawProblems writes the problems of one severity.
func drawProblems(out *screen, s *fleetState, severity problems.Severity) {
	if s.count(severity) == 0 {
		return
	}
	colour := text.FgRed
	if severity == problems.SeverityWarning {
		colour = text.FgYellow
	}
	out.line(painted("\n"), out.paint(colour, severity+"s:"))
	var before problems.Problem
	for _, p := range s.Problems {
		if p.Severity != severity {
			continue
		}
		if before.Text != "" && (p.Effect != before.Effect || p.Action != before.Action) {
			drawConsequence(out, before)
		}
		out.paragraph("- ", p.Text)
		before = p
	}
	drawConsequence(out, before)
}

// drawCaptures writes the captures that are in force, and returns how many there are. They are warnings, and must not be overlooked.
func drawCaptures(out *screen, s *fleetState) (n int) {
	for _, p := range s.Problems {
		if p.Kind == reasons.CaptureRunning {
			if n++; n == 1 {
				out.line(painted("\n"), out.paint(text.FgRed, "CAPTURED CONTENT:"))
			}
			out.paragraph("- ", out.paint(text.FgRed, p.Text+"; "+p.Action))
		}
	}
	return n
}

// drawConsequence writes what problems do to clients, and what to do, once for all problems in a row that have this in common.
func drawConsequence(out *screen, p problems.Problem) {
	if p.Effect != "" {
		out.paragraph("    effect: ", out.paint(text.Faint, p.Effect))
	}
	if p.Action != "" {
		out.paragraph("    action: ", out.paint(text.Faint, p.Action))
	}
}

// drawOverview writes a line for each pool.
func drawOverview(out *screen, pools []poolView) {
	var rows [][]any
	for i := range pools {
		p := &pools[i]
		slots, queue := painted(""), painted("")
		if out.width == 0 || out.width >= barWidth {
			slots, queue = out.bar(p.Held, p.Limit, slotColour(p.Held, p.Limit)), out.bar(p.Queued, p.Queue.Limit, queueColour(p.Queued, p.Queue.Limit))
		}
		drain, wait := "?", "?"
		if p.RatePerSecond > 0 {
			drain = figure(p.RatePerSecond) + "/s"
		}
		if ms := p.ExpectedMillis; ms != nil && *ms <= 0 {
			wait = "none"
		} else if ms != nil {
			wait = brief(millis(*ms))
		}
		rows = append(rows, []any{
			out.paint(text.Bold, p.Colo), out.paint(text.Bold, p.Pool),
			slots, out.paint(slotColour(p.Held, p.Limit), ofMost(p.Held, p.Limit)),
			queue, out.paint(queueColour(p.Queued, p.Queue.Limit), ofMost(p.Queued, p.Queue.Limit)),
			drain, wait, age(p.Queue.OldestMillis), p.grants, p.refusals, p.notes(out),
		})
	}
	out.table("", []string{"~COLO", "~POOL", "", ">SLOTS", "", ">QUEUE", ">DRAIN", ">WAIT", ">OLDEST", ">GRANTS", ">REFUSED", "~"}, rows)
}

func ofMost(n, most int) string { return fmt.Sprintf("%d/%d", n, most) }

// slotColour does not warn of slots that are all held: that is what they are there for.
func slotColour(held, limit int) text.Color {
	if held >= limit {
		return text.FgYellow
	}
	return text.FgGreen
}

// queueColour warns of a queue that is nearly full.
func queueColour(queued, limit int) text.Color {
	if queued > 0 && float64(queued) >= 0.8*float64(limit) {
		return text.FgRed
	}
	return text.FgYellow
}

// age is how long the oldest request has waited; - if none waits.
func age(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return brief(millis(*ms))
}

// notes is what needs attention in a pool.
func (p *poolView) notes(out *screen) painted {
	var notes []string
	note := func(n int, colour text.Color, format string, args ...any) {
		if n > 0 {
			notes = append(notes, string(out.paint(colour, fmt.Sprintf(format, args...))))
		}
	}
	down, draining, full, limited := 0, 0, 0, 0
	for _, e := range p.Endpoints {
		switch {
		case e.Withheld: // another server of the colo may grant its slots, and knows its health
		case e.Draining:
			draining++
		case e.State != "up":
			down++
		case e.Full:
			full++
		}
	}
	for i := range p.Accounts {
		if p.Accounts[i].AtLimit {
			limited++
		}
	}
	wanted, elsewhere := p.engines(homes.StateWanted), 0
	for _, o := range p.others {
		elsewhere += o.Held
	}
	switch {
	case p.Draining || p.server.NotReady == fleet.StateDraining:
		note(1, text.FgYellow, "draining")
	case !p.isHome:
		note(1, text.FgRed, "NO HOME")
	case !p.Granting:
		note(1, text.FgRed, "NO GRANTS")
	case p.server.NotReady != "":
		note(1, text.FgRed, "NOT READY")
	}
	switch {
	case len(p.Endpoints) > 0:
	case p.elsewhere:
		note(1, text.Faint, "no engine here")
	default:
		note(1, text.FgRed, "NO ENDPOINT")
	}
	note(down, text.FgRed, "%d/%d OUT", down, len(p.Endpoints))
	note(draining, text.FgYellow, "%d/%d draining", draining, len(p.Endpoints))
	note(len(wanted), text.FgYellow, "%s not granted yet", count(len(wanted), "engine"))
	note(elsewhere, text.FgYellow, "%d on other servers", elsewhere)
	note(full, text.FgYellow, "%d full", full)
	note(limited, text.FgYellow, "%s at limit", count(limited, "account"))
	return painted(strings.Join(notes, ", "))
}

// isIdle reports whether nothing happens in a pool, and nothing needs attention.
func (p *poolView) isIdle() bool {
	return p.Held == 0 && p.Queued == 0 && p.PendingRetries == 0 && (p.notes(&screen{}) == "" || p.elsewhere && len(p.Endpoints) == 0)
}
