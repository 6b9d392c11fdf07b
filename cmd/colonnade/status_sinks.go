package main

import (
	"cmp"
	"maps"
	"slices"

	"github.com/jedib0t/go-pretty/v6/text"

	"colonnade/node"
)

// sinkRow is a sink of the events of all nodes that have one of its name.
type sinkRow struct {
	nodes, failing int
	events         uint64
	seconds        float64 // of the node that is furthest behind
	furthest       string  // that node
}

// drawSinks writes a line for each sink: how much it has not taken, and for how long.
func drawSinks(out *screen, s *fleetState) {
	rows := map[string]*sinkRow{}
	for _, n := range slices.Concat(s.Nodes, s.entries) {
		if n.Config == nil {
			continue
		}
		for i := range n.Config.Sinks {
			sink := &n.Config.Sinks[i]
			if rows[sink.Name] == nil {
				rows[sink.Name] = &sinkRow{}
			}
			rows[sink.Name].add(&n, sink)
		}
	}
	var lines [][]any
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		r := rows[name]
		failing := painted("")
		if r.failing > 0 {
			failing = out.paint(text.FgYellow, "takes nothing from "+count(r.failing, "node"))
		}
		behind := "-"
		if r.seconds > 0 {
			behind = brief(seconds(r.seconds))
		}
		lines = append(lines, []any{out.paint(text.Bold, name), r.nodes, r.events, behind, cmp.Or(r.furthest, "-"), failing})
	}
	if len(lines) > 0 {
		out.line()
		out.table("", []string{"~SINK", ">NODES", ">WAITING", ">BEHIND", "~MOST AT", "~"}, lines)
	}
}

func (r *sinkRow) add(n *nodeState, sink *node.SinkState) {
	r.nodes++
	r.events += sink.LagEvents
	if sink.Problem != "" || sink.Failing != "" {
		r.failing++
	}
	if sink.LagSeconds > r.seconds {
		r.seconds, r.furthest = sink.LagSeconds, n.Node
	}
}
