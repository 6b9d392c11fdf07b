package main

import (
	"fmt"
	"slices"
	"strings"
)

// rotationStep is the next step of a rotation of the fleet's keys.
type rotationStep struct {
	newKey  string   // its id
	number  int      // from 1 to 3; 0 = the rotation is complete
	missing []string // nodes that have not made the step
	file    []string // ids of the keys in the key file of the step
}

// newRotationStep returns the step that comes next, of nodes that have all been asked. known has the ids of the keys in the operator's file;
// nil = every key that a node has. A key that is not in the file is needed only if a node signs with it, and another one accepts that.
func newRotationStep(nodes []nodeState, newKey string, known []string) rotationStep {
	s := rotationStep{newKey: newKey}
	var old []string
	var accept, sign, drop []string // nodes that do not do so yet
	for i := range nodes {
		k, name := nodes[i].Config.FleetKeys, nodes[i].name()
		if !slices.Contains(k.Accepts, newKey) {
			accept = append(accept, name)
		}
		if k.Signs != newKey {
			sign = append(sign, name)
		}
		if len(k.Accepts) > 1 || k.Accepts[0] != newKey {
			drop = append(drop, name)
		}
		for _, id := range k.Accepts {
			needed := known == nil || slices.Contains(known, id) || id == k.Signs && isBelieved(nodes, i)
			if id != newKey && needed && !slices.Contains(old, id) {
				old = append(old, id)
			}
		}
	}
	switch {
	case len(accept) > 0:
		s.number, s.missing, s.file = 1, accept, append(old, newKey)
	case len(sign) > 0:
		s.number, s.missing, s.file = 2, sign, append([]string{newKey}, old...)
	case len(drop) > 0:
		s.number, s.missing, s.file = 3, drop, []string{newKey}
	}
	return s
}

// isBelieved reports whether a colo server, other than the node itself, accepts the key with which nodes[i] signs.
func isBelieved(nodes []nodeState, i int) bool {
	for j := range nodes {
		if j != i && nodes[j].Role == roleColo && slices.Contains(nodes[j].Config.FleetKeys.Accepts, nodes[i].Config.FleetKeys.Signs) {
			return true
		}
	}
	return false
}

func (s rotationStep) String() string {
	goals := []string{
		"the rotation is complete: every node has the new key alone", "every node accepts the new key, beside those that sign",
		"every node signs with the new key", "no node accepts another key than the new one",
	}
	if s.number == 0 {
		return goals[0]
	}
	return fmt.Sprintf("step %d of 3: %s\n  the key file of this step has, in this order: %s\n  nodes without it: %s", s.number, goals[s.number],
		strings.Join(s.file, ", "), strings.Join(s.missing, ", "))
}
