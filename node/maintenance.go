package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/admin/api"
	"colonnade/fleet"
)

// Errors of [Maintenance].
var (
	ErrNotServing = errors.New("the node does not serve yet, so there is nothing to drain")
	ErrEnding     = errors.New("the process is ending")
)

// LastNodeError is the error of a drain after which no other node would serve.
type LastNodeError struct {
	Node   string
	Effect string // on clients
}

// Error returns one sentence.
func (e *LastNodeError) Error() string {
	return fmt.Sprintf("no other node takes over from %s: %s", e.Node, e.Effect)
}

// Maintenance drains a node and takes it back while its process goes on, so that work on its machine disturbs no client. It is safe for
// concurrent use.
//
// A node that drains is registered as draining and not ready, as after SIGTERM. No request is cut or refused: a colo server whose pools
// move to other servers sends its waiting requests there, and one without such servers goes on with what it has. The drain is not kept: a
// process that is started again serves.
type Maintenance struct {
	node   string
	logger *slog.Logger

	drain atomic.Pointer[api.NodeDrain] // nil = the node does not drain

	mu      sync.Mutex // guards the fields below, and keeps changes in order; held while etcd is asked
	parts   *drainable // nil before the node serves
	ending  bool
	problem error // why other nodes may not know of the last change
}

// drainable is what a drain changes in a node.
type drainable struct {
	ctx      context.Context                               // ends when the node has to stop
	switchTo func(ctx context.Context, state string) error // fleet.StateActive or StateDraining
	effect   func() string                                 // of a drain on clients; empty = other nodes take over
}

// begin makes changes possible.
func (m *Maintenance) begin(parts drainable) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.parts = &parts
}

// end makes further changes impossible, since the node drains for good. A change that is under way ends first.
func (m *Maintenance) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ending = true
}

// Drain drains the node. by names the operator. Without force, it returns a *[LastNodeError] if no other node would serve. Other nodes learn of
// it later while etcd is away.
func (m *Maintenance) Drain(by string, force bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.mayChangeLocked(); err != nil {
		return err
	}
	if effect := m.parts.effect(); effect != "" && !force && m.draining() == nil {
		return &LastNodeError{Node: m.node, Effect: effect}
	}
	if m.draining() == nil {
		m.drain.Store(&api.NodeDrain{Since: time.Now(), By: by})
		m.logger.Info("draining until the node is taken back", "node", m.node, "by", by)
	}
	m.switchLocked(fleet.StateDraining)
	return nil
}

// Undrain takes the node back.
func (m *Maintenance) Undrain(by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.mayChangeLocked(); err != nil {
		return err
	}
	if drain := m.drain.Swap(nil); drain != nil {
		m.logger.Info("taken back after a drain", "node", m.node, "by", by, "drained_by", drain.By, "drained_for", time.Since(drain.Since))
	}
	m.switchLocked(fleet.StateActive)
	return nil
}

func (m *Maintenance) mayChangeLocked() error {
	switch {
	case m.ending:
		return ErrEnding
	case m.parts == nil:
		return ErrNotServing
	}
	return nil
}

// switchLocked puts a state in force. It does not wait for an etcd that is away: the lease puts the document later, if etcd comes back.
func (m *Maintenance) switchLocked(state string) {
	ctx, cancel := context.WithTimeout(m.parts.ctx, announceTimeout)
	defer cancel()
	if m.problem = m.parts.switchTo(ctx, state); m.problem != nil {
		m.logger.Warn("cannot store the state of the node in etcd", "state", state, "error", m.problem)
	}
}

// draining returns the drain under way; nil = there is none.
func (m *Maintenance) draining() *api.NodeDrain { return m.drain.Load() }

// States of a node beside those of its document.
const (
	stateStarting = "starting"
	stateEnding   = "ending"
)

// state returns the state of the node, and why others may not know it.
func (m *Maintenance) state() (state string, drain *api.NodeDrain, problem string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.problem != nil {
		problem = "etcd has not stored the state yet, so other nodes may not know it: " + m.problem.Error()
	}
	switch {
	case m.ending:
		return stateEnding, m.draining(), ""
	case m.parts == nil:
		return stateStarting, nil, ""
	case m.draining() != nil:
		return fleet.StateDraining, m.draining(), problem
	}
	return fleet.StateActive, nil, problem
}

// drainableEntry returns what a drain of an entry changes. put puts its document.
func (r *runtime) drainableEntry(ctx context.Context, put func(ctx context.Context, state string) error) drainable {
	return drainable{
		ctx: ctx,
		switchTo: func(ctx context.Context, state string) error {
			return errors.Join(r.drainEntryOnly(ctx, state), put(ctx, state))
		},
		effect: func() string {
			if slices.ContainsFunc(r.watcher.Table().Entries(), func(e *fleet.EntryNode) bool {
				return e.Node != r.config.Node && cmp.Or(e.State, fleet.StateActive) == fleet.StateActive
			}) {
				return ""
			}
			return "it is the last active entry, so load balancers would find none that is ready"
		},
	}
}

// drainEntryOnly drains the entry of a process that serves one place, or takes it back: a load balancer moves its clients to other places.
// The process knows of none.
func (r *runtime) drainEntryOnly(_ context.Context, state string) error {
	if state == fleet.StateDraining {
		r.entry.Drain()
	} else {
		r.entry.Undrain()
	}
	return nil
}

// drainableServer returns what a drain of a colo server changes: its document, by which entries and the other servers of its colo go.
func (r *runtime) drainableServer(ctx context.Context, self *serverDocument) drainable {
	colo := r.siblings.colo
	return drainable{
		ctx: ctx,
		switchTo: func(ctx context.Context, state string) error {
			err := self.setState(ctx, state)
			if err == nil && state == fleet.StateDraining {
				r.siblings.keeper.AwaitHandover(ctx, announceTimeout)
			}
			return err
		},
		effect: func() string {
			if slices.ContainsFunc(r.watcher.Table().Registered(colo), func(s *fleet.Server) bool {
				return s.Node != r.config.Node && cmp.Or(s.State, fleet.StateActive) == fleet.StateActive
			}) {
				return ""
			}
			return fmt.Sprintf("it is the last active server of colo %s, so entries send requests to other colos, and refuse those for models that only this colo has", colo)
		},
	}
}
