package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"colonnade/problems"
	"colonnade/reasons"
)

// fleetKeyFault is a node whose requests other nodes refuse.
type fleetKeyFault struct {
	node     string
	key      string   // id of the key with which it signs
	refusing []string // colo servers that do not accept it
}

func (f fleetKeyFault) String() string {
	return fmt.Sprintf("%s: signs with the fleet key %s, which is not accepted by %s: its requests fail there", f.node, f.key, firstOf(f.refusing))
}

// fleetKeyFaults says which nodes sign with a key that a colo server does not accept: its answer to them is 403.
func fleetKeyFaults(nodes []nodeState) (faults []fleetKeyFault) {
	for i := range nodes {
		from := fleetKeysOf(&nodes[i])
		if from == nil {
			continue
		}
		var refusing []string
		for j := range nodes {
			if to := fleetKeysOf(&nodes[j]); to != nil && nodes[j].Role == roleColo && j != i && !slices.Contains(to.Accepts, from.Signs) {
				refusing = append(refusing, nodes[j].name())
			}
		}
		if len(refusing) > 0 {
			faults = append(faults, fleetKeyFault{node: nodes[i].name(), key: from.Signs, refusing: refusing})
		}
	}
	return faults
}

// addFleetKeys adds the nodes whose requests others refuse, and a rotation that is not complete.
func addFleetKeys(l *problems.List, nodes []nodeState) {
	for _, f := range fleetKeyFaults(nodes) {
		l.Errorf(reasons.FleetKeyRefused, f.node, "%s; run colonnade keys rotate-fleet", f)
	}
	byKeys := map[string][]string{} // names of nodes
	for i := range nodes {
		if k := fleetKeysOf(&nodes[i]); k != nil {
			byKeys[strings.Join(k.Accepts, ", ")] = append(byKeys[strings.Join(k.Accepts, ", ")], nodes[i].name())
		}
	}
	if len(byKeys) < 2 {
		return
	}
	var groups []string
	for _, keys := range slices.Sorted(maps.Keys(byKeys)) {
		groups = append(groups, fmt.Sprintf("%s at %s", keys, firstOf(byKeys[keys])))
	}
	l.Warnf(reasons.FleetKeysDiffer, "", "nodes have different fleet keys, as during a rotation: %s; to complete it, run colonnade keys rotate-fleet", strings.Join(groups, "; "))
}
