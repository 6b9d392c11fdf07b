package main

import (
	"os"
	"strings"
	"testing"

	"colonnade/analytics/ship"
	"colonnade/node"
)

const wantSinks = `
SINK     NODES  WAITING  BEHIND  MOST AT
archive      1        0       -  -
billing      2     1230    1m4s  ams-1    takes nothing from 1 node
`

// Each sink is one row, with what it lacks of all nodes together.
func TestStatusOfSinks(t *testing.T) {
	one := configured(node.ConfigState{Node: "ams-1", Sinks: []node.SinkState{
		{Stats: ship.Stats{Name: "archive"}}, {Stats: ship.Stats{Name: "billing", LagEvents: 1200, LagSeconds: 64, Failing: "it is away"}},
	}})
	two := configured(node.ConfigState{Node: "ams-2", Sinks: []node.SinkState{{Stats: ship.Stats{Name: "billing", LagEvents: 30, LagSeconds: 1.5}}}})
	out := run(t, "", "status", "-admin", one.serve(t)+","+two.serve(t)).out
	if !strings.Contains(out, wantSinks) {
		t.Errorf("got\n%s\nwant\n%s", out, wantSinks)
	}
	page, err := os.ReadFile("../../docs/status.md")
	if err != nil || !strings.Contains(string(page), "\n```text"+wantSinks+"```\n") {
		t.Errorf("docs/status.md does not have the sample: %v", err)
	}
}
