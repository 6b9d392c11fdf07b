package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
)

func newConfigStatus() *cobra.Command {
	var store *store
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say what of the documents is in force, in etcd and at each node",
		Long: `Say what of the documents is in force. Of etcd: how many documents it has, which of them no node
accepts, what two of them claim, and what refers to nothing. Of each node that has registered,
from its admin listener: how far it has followed etcd, which documents it rejects, which deletions
it holds back, which documents it keeps although their leases ran out, which of its certificates
have expired or are about to, and, of an entry, which colos its last requests did not reach. The
admin listener is on loopback unless the node's -admin says otherwise; a node that cannot be asked
counts as wrong. What is running in the pools, colonnade status says.

The exit status is 1 if anything is wrong; a warning is not.`,
		Example: `  colonnade config status
  colonnade config status -json | jq '.nodes[] | {node, behind}'`,
		Args: noMore,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s *status
			if err := store.use(cmd.Context(), func(ctx context.Context, client *etcd.Client) (err error) {
				s, err = gather(ctx, client)
				return err
			}); err != nil {
				return err
			}
			s.Etcd = store.endpoints
			if asJSON {
				if err := writeJSON(cmd.OutOrStdout(), s, "  "); err != nil {
					return err
				}
			} else {
				printStatus(cmd.OutOrStdout(), s)
			}
			if len(s.Wrong) > 0 {
				return errors.New(isAre(len(s.Wrong), "thing") + " wrong")
			}
			return nil
		},
	}
	store = storeFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "the same as JSON")
	return cmd
}

// status is what is known of a fleet's documents.
type status struct {
	Etcd       string             `json:"etcd"`
	Revision   int64              `json:"revision"`   // of the store
	Documents  map[fleet.Kind]int `json:"documents"`  // by kind; also what is of no kind
	Registered map[fleet.Kind]int `json:"registered"` // of these, what nodes and registrars have put
	Rejected   []rejected         `json:"rejected"`
	Conflicts  []fleet.Conflict   `json:"conflicts"`
	Dangling   []fleet.Dangling   `json:"dangling"`
	Unserved   bool               `json:"unserved"` // there are models, and no colo is active
	odd        []string           // pools of which it is told in Warnings
	Nodes      []nodeStatus       `json:"nodes"`
	Wrong      []string           `json:"wrong"`    // all of the above that is, in words
	Warnings   []string           `json:"warnings"` // what may be so by intent
}

// rejected is a document whose newest version is not in force.
type rejected struct {
	Key      string   `json:"key"`
	Revision int64    `json:"revision"`
	Field    string   `json:"field,omitempty"`
	Value    string   `json:"value,omitempty"`
	Reason   string   `json:"reason"`
	LastGood []string `json:"last_good"`          // nodes that go on with an earlier version
	InForce  int64    `json:"in_force,omitempty"` // its revision; 0: they do not say, or not the same
	Without  []string `json:"without"`            // nodes that go on without any
}

// gather asks etcd, and then the nodes.
func gather(ctx context.Context, client *etcd.Client) (*status, error) {
	docs, revision, err := etcd.List(ctx, client, node.Prefix, "")
	if err != nil {
		return nil, err
	}
	s := readStore(docs)
	s.Revision = revision
	askNodes(ctx, s.Nodes)
	// What nodes have heard of by now may be newer than the list.
	_, newest, err := etcd.List(ctx, client, node.Prefix, string(fleet.KindDefaults))
	if err != nil {
		return nil, err
	}
	s.readNodes(docs)
	s.judge(newest)
	return s, nil
}

// readStore looks at the documents themselves.
func readStore(docs []etcd.Stored) *status {
	s := &status{Documents: map[fleet.Kind]int{}, Registered: map[fleet.Kind]int{}, Rejected: []rejected{}, Nodes: allNodes(docs)}
	good := document.NewSet()
	for _, d := range docs {
		name, _, _ := strings.Cut(d.Key, "/")
		s.Documents[fleet.Kind(name)]++
		if isRegistered(d) {
			s.Registered[fleet.Kind(name)]++
		}
		var invalid *document.InvalidError
		if errors.As(good.Put(d.Key, d.Value, d.Revision), &invalid) {
			s.reject(rejected{Key: d.Key, Revision: d.Revision, Field: invalid.Field, Value: invalid.Value, Reason: invalid.Reason})
		}
	}
	table := good.Table()
	s.Conflicts = append([]fleet.Conflict{}, table.Conflicts...)
	s.Dangling = slices.DeleteFunc(append([]fleet.Dangling{}, table.Dangling()...), s.mayStand)
	s.odd = oddPools(table)
	s.Unserved = len(s.Rejected) == 0 && len(table.Models()) > 0 &&
		!slices.ContainsFunc(table.Colos(), func(c *fleet.Colo) bool { return c.State == fleet.StateActive })
	return s
}

// mayStand says that what a reference lacks may be there: in the last good version of a document that is rejected now.
func (s *status) mayStand(d fleet.Dangling) bool {
	return slices.ContainsFunc(s.Rejected, func(r rejected) bool { return strings.HasPrefix(r.Key, string(d.Missing)+"/") })
}

// readNodes enters what the nodes say of the documents that the store has now.
func (s *status) readNodes(docs []etcd.Stored) {
	revisions := map[string]int64{}
	for _, d := range docs {
		revisions[d.Key] = d.Revision
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Config == nil {
			continue
		}
		n.Behind = max(0, s.Revision-n.Config.Revision)
		for _, r := range n.Config.Rejected {
			if r.Revision != revisions[r.Key] {
				continue // of another version: the node is about to see this one, or the list was too early for that one
			}
			known := s.reject(rejected{Key: r.Key, Revision: r.Revision, Field: r.Field, Reason: r.Reason})
			if r.LastGood {
				if len(known.LastGood) == 0 {
					known.InForce = r.InForce
				} else if known.InForce != r.InForce {
					known.InForce = 0
				}
				known.LastGood = append(known.LastGood, n.Node)
			} else {
				known.Without = append(known.Without, n.Node)
			}
		}
	}
}

// reject enters a rejected document, unless it is there. One that only nodes reject is accepted by this program: they are of
// another version.
func (s *status) reject(r rejected) *rejected {
	for i := range s.Rejected {
		if s.Rejected[i].Key == r.Key {
			return &s.Rejected[i]
		}
	}
	r.LastGood, r.Without = []string{}, []string{}
	s.Rejected = append(s.Rejected, r)
	return &s.Rejected[len(s.Rejected)-1]
}
