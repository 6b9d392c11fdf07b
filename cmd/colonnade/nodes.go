package main

import (
	"context"
	"net"
	"sync"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
)

// registeredNode is a node that has registered.
type registeredNode struct {
	Document string `json:"document,omitempty"` // its key
	Node     string `json:"node"`
	Role     string `json:"role"` // entry or colo
	Place    string `json:"place,omitempty"`
	State    string `json:"state,omitempty"`
	Version  string `json:"version,omitempty"`
	Admin    string `json:"admin,omitempty"`
	Unknown  string `json:"unknown,omitempty"` // why it could not be asked
}

// nodeStatus is a node, and what it says of its documents.
type nodeStatus struct {
	registeredNode
	Behind int64             `json:"behind"` // revisions of the store
	Config *node.ConfigState `json:"config,omitempty"`
}

// allNodes returns the nodes among documents, in their order, to be asked for their documents.
func allNodes(docs []etcd.Stored) []nodeStatus {
	nodes := []nodeStatus{}
	for _, n := range registeredNodes(docs) {
		nodes = append(nodes, nodeStatus{registeredNode: n})
	}
	return nodes
}

// registeredNodes returns the nodes among documents, in their order.
func registeredNodes(docs []etcd.Stored) []registeredNode {
	good := document.NewSet()
	var nodes []registeredNode
	for _, d := range docs {
		if good.Put(d.Key, d.Value, d.Revision) != nil {
			continue // told as a bad document
		}
		switch n := good.Noun(d.Key).(type) {
		case *fleet.Server:
			nodes = append(nodes, registeredNode{
				Document: d.Key, Node: n.Node, Role: "colo", Place: n.Colo, State: n.State, Version: n.Version, Admin: reachable(n.Admin, n.Address),
			})
		case *fleet.EntryNode:
			nodes = append(nodes, registeredNode{
				Document: d.Key, Node: n.Node, Role: "entry", Place: n.Region, State: n.State, Version: n.Version, Admin: reachable(n.Admin, n.Address),
			})
		}
	}
	return nodes
}

// reachable returns where an admin listener can be asked. One on all addresses of its machine is where the node's other
// listener is.
func reachable(admin, address string) string {
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

// askNodes asks all nodes at once for their /debug/config.
func askNodes(ctx context.Context, nodes []nodeStatus) {
	a := newAsker(askTimeout)
	defer a.client.CloseIdleConnections()
	var asked sync.WaitGroup
	for i := range nodes {
		asked.Go(func() {
			config, err := askConfig(ctx, a, &nodes[i])
			if ctx.Err() != nil && nodes[i].Config != nil {
				return // broken off by us: what it said last stands
			}
			nodes[i].Config, nodes[i].Unknown = config, ""
			if err != nil {
				nodes[i].Unknown = err.Error()
			}
		})
	}
	asked.Wait()
}

func askConfig(ctx context.Context, a asker, n *nodeStatus) (*node.ConfigState, error) {
	config := &node.ConfigState{}
	if err := a.page(ctx, n.Admin, "/debug/config", config); err != nil {
		return nil, err
	}
	if config.Node != n.Node {
		return nil, anotherNode(config.Node, n.Admin)
	}
	return config, nil
}

// unasked says why the node could not be asked.
func (n *registeredNode) unasked() string {
	if n.Admin == "" {
		return "cannot be asked: " + n.Unknown
	}
	return "cannot be asked at " + n.Admin + ": " + n.Unknown
}
