package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// version returns the version of the node's software: what the node says, or if it does not answer, what it has registered.
func (n *nodeState) version() string {
	reported := ""
	if n.Config != nil {
		reported = n.Config.Version
	}
	return cmp.Or(reported, n.Version)
}

// drawVersions writes which nodes run which version. While all run one, there are no names.
func drawVersions(out *screen, nodes []nodeState) {
	byVersion := map[string][]string{}
	for i := range nodes {
		if v := nodes[i].version(); v != "" {
			byVersion[v] = append(byVersion[v], nodes[i].Node)
		}
	}
	for _, v := range slices.Sorted(maps.Keys(byVersion)) {
		on := strings.Join(byVersion[v], ", ")
		if len(byVersion) == 1 && len(byVersion[v]) == len(nodes) {
			on = count(len(nodes), "node")
		}
		out.paragraph("", "version "+v+": "+on)
	}
}
