package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	ErrUnchecked  = errors.New("cannot make sure by etcd that another node takes over")
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
	problem error // of the last attempt to store a state in etcd that failed; nil = etcd has stored one since
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

// Drain drains the node. by names the operator. Without force, it returns a *[LastNodeError] if no other node would serve, and [ErrUnchecked]
// while etcd is away. With force, other nodes learn of it later while etcd is away.
func (m *Maintenance) Drain(by string, force bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.mayChangeLocked(); err != nil {
		return err
	}
	if m.draining() == nil {
		if !force && m.parts.registration != nil {
			if err := m.announceLocked(); err != nil {
				return err
			}
		}
		m.drain.Store(&api.NodeDrain{Since: time.Now(), By: by})
		m.logger.Info("draining until the node is taken back", "node", m.node, "by", by)
	}
	m.switchLocked(fleet.StateDraining)
	return nil
}

// announceLocked stores the state draining in etcd, or restores the state active and returns why the node may not drain. Another node may
// drain at the same time, so etcd is asked again after the state is stored: the later one of both finds the other one draining.
func (m *Maintenance) announceLocked() error {
	ctx, cancel := context.WithTimeout(m.parts.ctx, checkTimeout)
	defer cancel()
	if err := m.checkOthersLocked(ctx); err != nil {
		return err
	}
	err := m.parts.registration.put(ctx, fleet.StateDraining)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrUnchecked, err)
	} else {
		err = m.checkOthersLocked(ctx)
	}
	if err != nil {
		m.logger.Warn("not drained", "node", m.node, "error", err)
		m.switchLocked(fleet.StateActive)
	}
	return err
}

// checkOthersLocked returns nil if etcd has another active node that takes over.
func (m *Maintenance) checkOthersLocked(ctx context.Context) error {
	found, err := m.parts.registration.otherActive(ctx)
	switch {
	case m.parts.ctx.Err() != nil:
		return ErrEnding
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnchecked, err)
	case !found:
		return &LastNodeError{Node: m.node, Effect: m.parts.registration.effect}
	}
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
	if m.parts.local != nil {
		m.parts.local(state)
	}
	registration := m.parts.registration
	if registration == nil {
		return
	}
	ctx, cancel := context.WithTimeout(m.parts.ctx, announceTimeout)
	defer cancel()
	if err := registration.put(ctx, state); err != nil {
		m.problem = err
		m.logger.Warn("cannot store the state of the node in etcd", "state", state, "error", err)
	} else if state == fleet.StateDraining && registration.handOver != nil {
		registration.handOver(ctx)
	}
}

// problemLocked returns why other nodes may not know the state; empty = etcd has stored it.
func (m *Maintenance) problemLocked() string {
	if m.problem != nil && m.parts.registration.stored() { // the lease has put the document
		m.problem = nil
	}
	if m.problem == nil {
		return ""
	}
	return "etcd has not stored the state yet, so other nodes may not know it: " + m.problem.Error()
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
	switch {
	case m.ending:
		return stateEnding, m.draining(), ""
	case m.parts == nil:
		return stateStarting, nil, ""
	case m.draining() != nil:
		return fleet.StateDraining, m.draining(), m.problemLocked()
	}
	return fleet.StateActive, nil, m.problemLocked()
}
