package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"colonnade/change"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
)

// documentState is what etcd holds, checked by the code that nodes use too.
type documentState struct {
	Revision   int64              `json:"revision"`   // of etcd
	Documents  map[fleet.Kind]int `json:"documents"`  // number by kind; kinds may be unknown ones
	Registered map[fleet.Kind]int `json:"registered"` // of these, the number that nodes and registrars have put
	Records    []recordState      `json:"records"`    // of colo servers' processes

	table     *fleet.Table     // of the valid documents
	invalid   []rejection      // the others
	revisions map[string]int64 // by key
	nodes     []registration   // in the order of their keys
	servers   []*fleet.Server
}

// rejection is a document whose newest version is not in force everywhere.
type rejection struct {
	document.InvalidError
	instead []string // what is in force at the nodes that reject it
}

const (
	roleEntry = "entry"
	roleColo  = "colo"
	roleServe = "serve" // an entry and a colo server in one process
)

// registration is what a node has registered in etcd.
type registration struct {
	Document string `json:"document,omitempty"` // its key; empty if the node was given by address
	Node     string `json:"node"`
	Role     string `json:"role"`            // entry, colo or serve; may be empty if the node was given by address
	Place    string `json:"place,omitempty"` // region of an entry, colo of a colo server
	State    string `json:"state,omitempty"`
	Version  string `json:"version,omitempty"`
	Admin    string `json:"admin,omitempty"` // address of its admin listener
}

func newDocumentState(docs []etcd.Stored, revision int64) documentState {
	s := documentState{Revision: revision, Documents: map[fleet.Kind]int{}, Registered: map[fleet.Kind]int{}, revisions: map[string]int64{}}
	valid := document.NewSet()
	for _, d := range etcd.InCreationOrder(docs) {
		if change.IsRecordKey(d.Key) {
			continue
		}
		name, _, _ := strings.Cut(d.Key, "/")
		s.Documents[fleet.Kind(name)]++
		if change.IsRegistered(d) {
			s.Registered[fleet.Kind(name)]++
		}
		s.revisions[d.Key] = d.Revision
		var invalid *document.InvalidError
		if errors.As(d.PutInto(valid), &invalid) {
			s.invalid = append(s.invalid, rejection{InvalidError: *invalid})
			continue
		}
		switch n := valid.Noun(d.Key).(type) {
		case *fleet.Server:
			s.servers = append(s.servers, n)
			s.nodes = append(s.nodes, registration{d.Key, n.Node, roleColo, n.Colo, n.State, n.Version, node.AdminAddress(n.Admin, n.Address)})
		case *fleet.EntryNode:
			s.nodes = append(s.nodes, registration{d.Key, n.Node, roleEntry, n.Region, n.State, n.Version, node.AdminAddress(n.Admin, n.Address)})
		}
	}
	slices.SortFunc(s.invalid, func(a, b rejection) int { return strings.Compare(a.Key, b.Key) })
	slices.SortFunc(s.nodes, func(a, b registration) int { return strings.Compare(a.Document, b.Document) })
	s.table, s.Records = valid.Table(), recordsIn(docs, s.servers)
	return s
}

// rejections returns the documents that this program or any node rejects, with what nodes use instead. Nodes of another
// version may reject what this program accepts.
func (s *fleetState) rejections() []rejection {
	all := slices.Clone(s.invalid)
	for _, n := range s.Nodes {
		if n.Config == nil {
			continue
		}
		for _, r := range n.Config.Rejected {
			if r.Revision != s.revisions[r.Key] {
				continue // of another version: either the node or the list is not up to date
			}
			at := slices.IndexFunc(all, func(known rejection) bool { return known.Key == r.Key })
			if at < 0 {
				at, all = len(all), append(all, rejection{InvalidError: document.InvalidError{Key: r.Key, Field: r.Field, Reason: r.Reason}})
			}
			instead := "none"
			if r.InForce > 0 {
				instead = fmt.Sprintf("revision %d", r.InForce)
			} else if r.LastGood {
				instead = "an earlier version"
			}
			all[at].instead = append(all[at].instead, instead+" at "+n.Node)
		}
	}
	return all
}
