package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"colonnade/fleet"
	"colonnade/problems"
	"colonnade/reasons"
)

// fleetKeyFault is a node with which others cannot exchange requests, since their fleet keys differ.
type fleetKeyFault struct {
	node     string
	key      string   // id of the key with which it signs
	refusing []string // colo servers that do not accept that key
	foreign  []string // ids of the keys that it does not accept
	refused  []string // nodes that sign with these
}

func (f *fleetKeyFault) String() string {
	switch foreign := strings.Join(f.foreign, ", "); {
	case len(f.refused) == 0:
		return fmt.Sprintf("%s: signs with the fleet key %s, which is not accepted by %s: its requests fail there", f.node, f.key, firstOf(f.refusing))
	case len(f.refusing) == 0:
		return fmt.Sprintf("%s: does not accept the fleet key %s of %s: their requests fail there", f.node, foreign, firstOf(f.refused))
	default:
		return fmt.Sprintf("%s: has the fleet key %s, and does not accept %s of %s: requests between them fail", f.node, f.key, foreign, firstOf(f.refused))
	}
}

// explains reports whether a fault is why a node gets refusals.
func (f *fleetKeyFault) explains(n *nodeState) bool {
	return f.node == n.name() || slices.Contains(f.refused, n.name())
}

// colo returns the colo of a colo server.
func (f *fleetKeyFault) colo() string {
	colo, _, _ := strings.Cut(strings.TrimPrefix(f.node, string(fleet.KindServer)+"/"), "/")
	return colo
}

// refusedPair is a node whose key a colo server does not accept, so that its answer is 403. Both are indexes of nodes.
type refusedPair struct{ signer, server int }

// fleetKeyFaults returns why nodes refuse the requests of others, by as few nodes as explain it: one server with a wrong key is one
// fault, although all other nodes notice it.
func fleetKeyFaults(nodes []nodeState) (faults []fleetKeyFault) {
	pairs := refusedPairs(nodes)
	for len(pairs) > 0 {
		at := mostRefused(pairs, len(nodes))
		f := fleetKeyFault{node: nodes[at].name(), key: fleetKeysOf(&nodes[at]).Signs}
		for _, p := range pairs {
			if p.signer == at {
				f.refusing = append(f.refusing, nodes[p.server].name())
			} else if p.server == at {
				f.refused = append(f.refused, nodes[p.signer].name())
				f.foreign = append(f.foreign, fleetKeysOf(&nodes[p.signer]).Signs)
			}
		}
		slices.Sort(f.foreign)
		f.foreign = slices.Compact(f.foreign)
		faults = append(faults, f)
		pairs = slices.DeleteFunc(pairs, func(p refusedPair) bool { return p.signer == at || p.server == at })
	}
	return faults
}

func refusedPairs(nodes []nodeState) (pairs []refusedPair) {
	for i := range nodes {
		from := fleetKeysOf(&nodes[i])
		for j := range nodes {
			to := fleetKeysOf(&nodes[j])
			if from != nil && to != nil && nodes[j].Role == roleColo && j != i && !slices.Contains(to.Accepts, from.Signs) {
				pairs = append(pairs, refusedPair{i, j})
			}
		}
	}
	return pairs
}

// mostRefused returns the node that is in most pairs; of several, the signer of the first pair, or the one that comes first.
func mostRefused(pairs []refusedPair, nodes int) int {
	times := make([]int, nodes)
	for _, p := range pairs {
		times[p.signer]++
		times[p.server]++
	}
	most := pairs[0].signer
	for i, n := range times {
		if n > times[most] {
			most = i
		}
	}
	return most
}

// addFleetKeys adds the nodes whose keys others do not have, or else a rotation that is not complete.
func addFleetKeys(l *problems.List, nodes []nodeState, faults []fleetKeyFault) {
	for i := range faults {
		addFleetKeyFault(l, nodes, &faults[i])
	}
	byKeys := map[string][]string{} // names of nodes
	for i := range nodes {
		if k := fleetKeysOf(&nodes[i]); k != nil {
			byKeys[strings.Join(k.Accepts, ", ")] = append(byKeys[strings.Join(k.Accepts, ", ")], nodes[i].name())
		}
	}
	if len(byKeys) < 2 || len(faults) > 0 {
		return
	}
	var groups []string
	for _, keys := range slices.Sorted(maps.Keys(byKeys)) {
		groups = append(groups, fmt.Sprintf("%s at %s", keys, firstOf(byKeys[keys])))
	}
	l.Warnf(reasons.FleetKeysDiffer, "", "nodes have different fleet keys, as during a rotation: %s", strings.Join(groups, "; "))
}

func addFleetKeyFault(l *problems.List, nodes []nodeState, f *fleetKeyFault) {
	var without []string // entries that no colo believes
	for i := range nodes {
		n := &nodes[i]
		if !n.reports(reasons.EntryNotBelieved) || !f.explains(n) {
			continue
		}
		if f.node == n.name() {
			return // its own report says it; see byKeys
		}
		without = append(without, n.name())
	}
	p := l.Errorf(reasons.FleetKeyRefused, f.node, "%s", f)
	if len(f.refused) > 0 {
		p.Effect = "requests that those nodes send to it go to other servers, or fail with 502"
	}
	if len(without) > 0 {
		p.Effect = fmt.Sprintf("every request at %s gets 502", firstOf(without))
	}
}

// byKeys returns a problem that a node reports as the keys of all nodes explain it; shown is false if the fault of another node says it.
func byKeys(p problems.Problem, n *nodeState, faults []fleetKeyFault) (explained problems.Problem, shown bool) {
	if p.Kind != reasons.EntryNotBelieved && p.Kind != reasons.ColoDisbelieves {
		return p, true
	}
	for i := range faults {
		if f := &faults[i]; f.node == n.name() && p.Kind == reasons.EntryNotBelieved {
			p.Text += fmt.Sprintf("; it signs with the fleet key %s, which is not accepted by %s", f.key, firstOf(f.refusing))
			p.Action = "give it the key file of the colo servers (-key-file); colonnade keys rotate-fleet says which keys each node has"
			return p, true
		} else if f.explains(n) && (p.Kind == reasons.EntryNotBelieved || f.node == n.name() || strings.Contains(p.Text, "colo "+f.colo()+" ")) {
			return p, false
		}
	}
	return p, true
}
