package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
)

// drainable is what a drain changes in a node.
type drainable struct {
	ctx          context.Context    // ends when the node has to stop
	local        func(state string) // changes the state of the process, fleet.StateActive or StateDraining; nil = there is nothing to change
	registration *drainableDocument // nil = the process knows no other nodes, so it drains without force: its load balancer may know some
}

// drainableDocument is the document by which other nodes know the state of a node.
type drainableDocument struct {
	put         func(ctx context.Context, state string) error
	stored      func() bool                             // whether etcd has the newest document
	handOver    func(ctx context.Context)               // waits until other nodes have what a draining node hands over; nil = nothing
	otherActive func(ctx context.Context) (bool, error) // whether etcd has another active node now, which takes over
	effect      string                                  // on clients, of a drain if there is none
}

// effectOfLastEntry is what a drain of an entry does to clients if there is no other active one.
const effectOfLastEntry = "it is the last active entry, so load balancers find none that is ready"

// effectOfLastServer is what a drain of a colo server does to clients if its colo has no other active one.
func effectOfLastServer(colo string) string {
	return fmt.Sprintf("it is the last active server of colo %s, so entries send requests to other colos, and refuse those for models that only this colo has", colo)
}

// drainableEntry returns what a drain of an entry changes. A load balancer moves its clients to other entries.
func (r *runtime) drainableEntry(ctx context.Context, document entryRegistration) drainable {
	return drainable{ctx: ctx, local: r.drainEntryOnly, registration: &drainableDocument{
		put: document.put, stored: document.lease.Stored,
		otherActive: func(ctx context.Context) (bool, error) { return r.otherActive(ctx, "entries/") },
		effect:      effectOfLastEntry,
	}}
}

// drainEntryOnly drains the entry of a process, or takes it back, without a change of its document.
func (r *runtime) drainEntryOnly(state string) {
	if state == fleet.StateDraining {
		r.entry.Drain()
	} else {
		r.entry.Undrain()
	}
}

// drainableServer returns what a drain of a colo server changes: its document, by which entries and the other servers of its colo go.
func (r *runtime) drainableServer(ctx context.Context, self *serverDocument) drainable {
	colo := r.siblings.colo
	return drainable{ctx: ctx, registration: &drainableDocument{
		put: self.setState, stored: self.lease.Stored,
		handOver:    func(ctx context.Context) { r.siblings.keeper.AwaitHandover(ctx, announceTimeout) },
		otherActive: func(ctx context.Context) (bool, error) { return r.otherActive(ctx, "servers/"+colo+"/") },
		effect:      effectOfLastServer(colo),
	}}
}

// otherActive reports whether etcd has an active node beside this one in a folder, such as entries/. It reads what etcd has stored before the
// call, not the table of this node, which may be older.
func (r *runtime) otherActive(ctx context.Context, folder string) (bool, error) {
	documents, _, err := etcd.List(ctx, r.client, Prefix, folder)
	return slices.ContainsFunc(documents, func(d etcd.Stored) bool {
		var other struct {
			State string `json:"state"`
		}
		return d.Key != folder+r.config.Node && json.Unmarshal(d.Value, &other) == nil && cmp.Or(other.State, fleet.StateActive) == fleet.StateActive
	}), err
}
