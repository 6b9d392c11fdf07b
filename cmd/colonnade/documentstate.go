package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

// documentState is what etcd holds, judged by the code that nodes use too.
type documentState struct {
	Revision   int64              `json:"revision"`   // of etcd
	Documents  map[fleet.Kind]int `json:"documents"`  // number by kind; kinds may be unknown ones
	Registered map[fleet.Kind]int `json:"registered"` // of these, the number that nodes and registrars have put
	Rejected   []rejection        `json:"rejected"`
	Conflicts  []fleet.Conflict   `json:"conflicts"`
	Dangling   []fleet.Dangling   `json:"dangling"`

	table     *fleet.Table     // of the documents that are not rejected
	revisions map[string]int64 // by key
	unserved  []string         // active colos without a registered server
}

// rejection is a document whose newest version is not in force.
type rejection struct {
	Key      string   `json:"key"`
	Revision int64    `json:"revision"`
	Field    string   `json:"field,omitempty"`
	Value    string   `json:"value,omitempty"`
	Reason   string   `json:"reason"`
	LastGood []string `json:"last_good"` // nodes that keep an earlier version in force, with its revision
	Without  []string `json:"without"`   // nodes without a version
}

const (
	roleEntry = "entry"
	roleColo  = "colo"
)

// registration is what a node has registered in etcd.
type registration struct {
	Document string `json:"document,omitempty"` // its key; empty if the node was given by address
	Node     string `json:"node"`
	Role     string `json:"role"`            // entry or colo
	Place    string `json:"place,omitempty"` // region of an entry, colo of a colo server
	State    string `json:"state,omitempty"`
	Version  string `json:"version,omitempty"`
	Admin    string `json:"admin,omitempty"` // address of its admin listener
}

// newDocumentState judges the documents, and returns the nodes among them in the order of their keys.
func newDocumentState(docs []etcd.Stored, revision int64) (documentState, []registration) {
	s := documentState{Revision: revision, Documents: map[fleet.Kind]int{}, Registered: map[fleet.Kind]int{}, Rejected: []rejection{},
		revisions: map[string]int64{}}
	good, nodes := document.NewSet(), []registration{}
	for _, d := range docs {
		name, _, _ := strings.Cut(d.Key, "/")
		s.Documents[fleet.Kind(name)]++
		if isRegistered(d) {
			s.Registered[fleet.Kind(name)]++
		}
		s.revisions[d.Key] = d.Revision
		var invalid *document.InvalidError
		if errors.As(good.Put(d.Key, d.Value, d.Revision), &invalid) {
			s.reject(rejection{Key: d.Key, Revision: d.Revision, Field: invalid.Field, Value: invalid.Value, Reason: invalid.Reason})
			continue
		}
		switch n := good.Noun(d.Key).(type) {
		case *fleet.Server:
			nodes = append(nodes, registration{d.Key, n.Node, roleColo, n.Colo, n.State, n.Version, adminAddress(n.Admin, n.Address)})
		case *fleet.EntryNode:
			nodes = append(nodes, registration{d.Key, n.Node, roleEntry, n.Region, n.State, n.Version, adminAddress(n.Admin, n.Address)})
		}
	}
	s.table = good.Table()
	s.Conflicts = append([]fleet.Conflict{}, s.table.Conflicts...)
	s.Dangling = slices.DeleteFunc(append([]fleet.Dangling{}, s.table.Dangling()...), s.mayExist)
	for _, c := range s.table.Colos() {
		if c.State == fleet.StateActive && !slices.ContainsFunc(nodes, func(n registration) bool { return n.Role == roleColo && n.Place == c.Name }) {
			s.unserved = append(s.unserved, c.Name)
		}
	}
	return s, nodes
}

// mayExist reports whether what a reference lacks may be in force: a rejected document of that kind may have an earlier
// version.
func (s *documentState) mayExist(d fleet.Dangling) bool {
	return slices.ContainsFunc(s.Rejected, func(r rejection) bool { return strings.HasPrefix(r.Key, string(d.Missing)+"/") })
}

// isRegistered reports whether a document belongs to a node or a registrar.
func isRegistered(d etcd.Stored) bool {
	return d.Leased || strings.HasPrefix(d.Key, string(fleet.KindServer)+"/") || strings.HasPrefix(d.Key, string(fleet.KindEntry)+"/")
}

// adminAddress returns where an admin listener is reached. One that is bound to the wildcard address is reached at the
// host of the node's other listener.
func adminAddress(admin, address string) string {
	host, port, err := net.SplitHostPort(admin)
	if err != nil || !net.ParseIP(host).IsUnspecified() {
		return admin
	}
	other, _, err := net.SplitHostPort(address)
	if err != nil || net.ParseIP(other).IsUnspecified() {
		other = "127.0.0.1"
	}
	return net.JoinHostPort(other, port)
}

// merge adds what a node reports about the documents.
func (s *documentState) merge(n *nodeState) {
	if n.Config == nil {
		return
	}
	n.Behind = max(0, s.Revision-n.Config.Revision)
	for _, r := range n.Config.Rejected {
		if r.Revision != s.revisions[r.Key] {
			continue // of another version: either the node or the list is not up to date
		}
		known := s.reject(rejection{Key: r.Key, Revision: r.Revision, Field: r.Field, Reason: r.Reason})
		switch {
		case !r.LastGood:
			known.Without = append(known.Without, n.Node)
		case r.InForce > 0:
			known.LastGood = append(known.LastGood, fmt.Sprintf("%s (revision %d)", n.Node, r.InForce))
		default:
			known.LastGood = append(known.LastGood, n.Node)
		}
	}
}

// reject adds a rejected document, unless it is known. Nodes of another version may reject what this program accepts.
func (s *documentState) reject(r rejection) *rejection {
	i := slices.IndexFunc(s.Rejected, func(known rejection) bool { return known.Key == r.Key })
	if i < 0 {
		r.LastGood, r.Without = []string{}, []string{}
		i, s.Rejected = len(s.Rejected), append(s.Rejected, r)
	}
	return &s.Rejected[i]
}
