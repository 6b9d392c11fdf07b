package node

import (
	"bytes"
	"context"
	"sync"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
)

// poolsInterval is how often a colo server looks whether the slots of its pools have changed.
const poolsInterval = time.Second

// serverDocument is the document that a colo server registers. It is safe for concurrent use.
type serverDocument struct {
	lease *etcd.Lease // set before it is shared

	mu       sync.Mutex // guards the field below, and keeps updates in order
	document fleet.Server
}

// newServerDocument returns the document of a server that begins.
func (r *runtime) newServerDocument(boot, gossip string) *serverDocument {
	return &serverDocument{document: fleet.Server{
		Address: r.advertiseAddress(), Admin: r.admin.Addr().String(), Gossip: gossip, Boot: boot, State: fleet.StateActive,
		Protocol: fleet.ProtocolRange{Min: fleet.OldestProtocol, Max: fleet.Protocol}, Version: Version(),
	}}
}

// encode returns the document as JSON.
func (d *serverDocument) encode() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return encode(d.document)
}

// change changes the document, and puts it if it is another one then.
func (d *serverDocument) change(ctx context.Context, change func(*fleet.Server)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := encode(d.document)
	change(&d.document)
	after := encode(d.document)
	if bytes.Equal(before, after) {
		return nil
	}
	return d.lease.Update(ctx, after)
}

// drain puts the document with the state draining.
func (d *serverDocument) drain(ctx context.Context) error {
	return d.setState(ctx, fleet.StateDraining)
}

// setState puts the document with another state.
func (d *serverDocument) setState(ctx context.Context, state string) error {
	return d.change(ctx, func(document *fleet.Server) { document.State = state })
}
