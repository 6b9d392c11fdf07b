package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"colonnade/entry"
	"colonnade/routing"
)

// notSelected is the reason of a colo that a step does not select.
const notSelected = "not selected"

// mostLeftOut is how many colos are shown that are not in the plan.
const mostLeftOut = 20

// drawPlan writes a plan: a row for each colo in the order of the attempts, then the colos that are not tried.
func drawPlan(out *screen, p entry.PlanState) {
	about := fmt.Sprintf("%s; pool %s; algorithm %s", whereFrom(p), p.Pool, p.Algorithm)
	out.paragraph("", out.paint(text.Bold, p.Model)+"  "+out.paint(text.Faint, about))
	out.line()
	var rows [][]any
	for _, s := range p.Steps {
		for i, c := range s.Colos {
			step := ""
			if i == 0 {
				step = stepName(s)
			}
			rows = append(rows, []any{step, c.Colo, c.Region, distance(out, c), freeOf(c), c.Why, strings.Join(p.Onward[c.Colo], ", ")})
		}
	}
	if len(rows) == 0 {
		out.line(out.paint(text.FgRed, "no colo is tried: requests get 503"))
	} else {
		out.table("", []string{"STEP", "COLO", "REGION", ">DISTANCE", ">FREE", "~WHY THERE", "ONWARD"}, rows)
	}
	drawLeftOut(out, p)
	drawRemarks(out, p)
}

// whereFrom names the entry and the account of a plan.
func whereFrom(p entry.PlanState) string {
	from := "from " + p.Node
	if p.Region != "" {
		from += " in " + p.Region
	}
	if p.Account != "" {
		from += " for " + p.Account
	}
	return from
}

func stepName(s routing.ExplainedStep) string { return fmt.Sprintf("%d %s", s.Number, s.Pick) }

// drawLeftOut writes the colos that are in no step, each with the reasons.
func drawLeftOut(out *screen, p entry.PlanState) {
	var rows [][]any
	add := func(c routing.ExplainedColo, why string) {
		rows = append(rows, []any{c.Colo, c.Region, distance(out, c), freeOf(c), why})
	}
	for _, left := range leftOut(p) {
		add(left.ExplainedColo, left.why())
	}
	for _, c := range p.Unusable {
		add(c, c.Why)
	}
	if len(rows) == 0 {
		return
	}
	out.line()
	out.line("not tried:")
	more := len(rows) - mostLeftOut // 0 or less: none
	out.table("", []string{"COLO", "REGION", ">DISTANCE", ">FREE", "~WHY LEFT OUT"}, rows[:min(len(rows), mostLeftOut)])
	if more > 0 {
		out.line(out.paint(text.Faint, "and "+count(more, "colo")+" more; -json has all"))
	}
}

// colosLeftOut is a colo that no step yields, and why, by step.
type colosLeftOut struct {
	routing.ExplainedColo
	reasons []string
}

// why returns the reasons, without those of steps that do not select the colo, if another does.
func (c *colosLeftOut) why() string {
	selected := slices.DeleteFunc(slices.Clone(c.reasons), func(why string) bool { return strings.HasSuffix(why, notSelected) })
	if len(selected) == 0 {
		return notSelected
	}
	return strings.Join(selected, "; ")
}

// leftOut returns the colos that the plan could use, and that are in no step of it.
func leftOut(p entry.PlanState) (all []*colosLeftOut) {
	inPlan := map[string]bool{}
	for _, s := range p.Steps {
		for _, c := range s.Colos {
			inPlan[c.Colo] = true
		}
	}
	for _, s := range p.Steps {
		for _, c := range s.LeftOut {
			if inPlan[c.Colo] {
				continue
			}
			i := slices.IndexFunc(all, func(known *colosLeftOut) bool { return known.Colo == c.Colo })
			if i < 0 {
				i, all = len(all), append(all, &colosLeftOut{ExplainedColo: c})
			}
			why := c.Why
			if len(p.Steps) > 1 {
				why = fmt.Sprintf("step %d: %s", s.Number, c.Why)
			}
			all[i].reasons = append(all[i].reasons, why)
		}
	}
	return all
}

// drawRemarks writes what the table does not say by itself.
func drawRemarks(out *screen, p entry.PlanState) {
	var remarks []string
	if p.PoolsUnknown {
		remarks = append(remarks, fmt.Sprintf("No colo of the steps has registered the pool %s, so the plan does not go by what colos have registered.", p.Pool))
	}
	isGuessed := func(c routing.ExplainedColo) bool { return !c.Measured }
	if slices.ContainsFunc(p.Unusable, isGuessed) || slices.ContainsFunc(p.Steps, func(s routing.ExplainedStep) bool {
		return slices.ContainsFunc(s.Colos, isGuessed) || slices.ContainsFunc(s.LeftOut, isGuessed)
	}) {
		remarks = append(remarks, "~ is a guess by positions or regions: nothing was measured yet.")
	}
	if len(p.Onward) > 0 {
		remarks = append(remarks, "ONWARD: where a colo that is full forwards a small request by itself.")
	}
	if len(remarks) > 0 {
		out.line()
	}
	for _, r := range remarks {
		out.paragraph("", out.paint(text.Faint, r))
	}
}

// distance returns the round trip to a colo, marked if it is a guess.
func distance(out *screen, c routing.ExplainedColo) painted {
	d := brief(c.Distance)
	if c.Distance < 10*time.Millisecond {
		d = fmt.Sprintf("%.1fms", c.Distance.Seconds()*1e3)
	}
	if c.Measured {
		return painted(d)
	}
	return out.paint(text.Faint, "~"+d)
}

// freeOf returns the free slots of the pool in a colo, as it last reported them.
func freeOf(c routing.ExplainedColo) string {
	if !c.Known {
		return "?"
	}
	return fmt.Sprintf("%d/%d", c.Free, c.Limit)
}
