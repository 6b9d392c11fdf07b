package node

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"colonnade/admin/api"
	"colonnade/fleet"
)

// twoNodes are two nodes in the place of etcd and of all nodes. It is safe for concurrent use.
type twoNodes struct {
	mu     sync.Mutex // guards the fields below
	states [2]string
	away   error // of etcd
}

func (n *twoNodes) put(node int, state string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away == nil {
		n.states[node] = state
	}
	return n.away
}

func (n *twoNodes) state(node int) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.states[node], n.away
}

func (n *twoNodes) setAway(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = err
}

// maintenance returns what drains a node of the two. announced is called before its document is stored as draining.
func (n *twoNodes) maintenance(t *testing.T, node int, announced func()) *Maintenance {
	m := &Maintenance{node: "a", logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	wanted := fleet.StateActive
	m.begin(drainable{ctx: t.Context(), registration: &drainableDocument{
		put: func(_ context.Context, state string) error {
			wanted = state
			if state == fleet.StateDraining {
				announced()
			}
			return n.put(node, state)
		},
		stored: func() bool { state, _ := n.state(node); return state == wanted },
		otherActive: func(context.Context) (bool, error) {
			state, err := n.state(1 - node)
			return state == fleet.StateActive, err
		},
	}})
	return m
}

// Each of two nodes finds the other one active before it drains. At least one of them goes back.
func TestTwoDrainsAtOnceLeaveAnActiveNode(t *testing.T) {
	t.Parallel()
	nodes := &twoNodes{states: [2]string{fleet.StateActive, fleet.StateActive}}
	var checked, ended sync.WaitGroup
	checked.Add(2)
	var errs [2]error
	for i := range errs {
		once := sync.OnceFunc(func() { checked.Done(); checked.Wait() })
		m := nodes.maintenance(t, i, once)
		ended.Go(func() {
			errs[i] = m.Drain("ops", false)
			if state, drain, problem := m.state(); (state == fleet.StateDraining) != (errs[i] == nil) || (drain != nil) != (errs[i] == nil) || problem != "" {
				t.Errorf("after %v, the node is %s since %v, with the problem %q", errs[i], state, drain, problem)
			}
		})
	}
	ended.Wait()
	for i, err := range errs {
		var last *LastNodeError
		if err != nil && !errors.As(err, &last) {
			t.Error(err)
		}
		if state, _ := nodes.state(i); (state == fleet.StateDraining) != (err == nil) {
			t.Errorf("after %v, the node is registered as %s", err, state)
		}
	}
	if errs[0] == nil && errs[1] == nil {
		t.Error("both nodes drain")
	}
}

// While etcd is away, a node drains by force only, and says that others may not know it, until etcd has stored its document.
func TestDrainWhileEtcdIsAway(t *testing.T) {
	t.Parallel()
	nodes := &twoNodes{states: [2]string{fleet.StateActive, fleet.StateActive}}
	m := nodes.maintenance(t, 0, func() {})
	away := errors.New("away")
	nodes.setAway(away)
	err := m.Drain("ops", false)
	if !errors.Is(err, ErrUnchecked) || !errors.Is(err, away) || m.draining() != nil {
		t.Errorf("without force: %v", err)
	}
	var answer *api.Error
	if errors.As(asAPIError(err), &answer); answer == nil || answer.Status != http.StatusServiceUnavailable || !strings.Contains(answer.Message, "force=true") {
		t.Errorf("the answer of the admin API: %+v", answer)
	}
	if err := m.Drain("ops", true); err != nil {
		t.Fatal(err)
	}
	if state, _, problem := m.state(); state != fleet.StateDraining || !strings.HasSuffix(problem, ": away") {
		t.Errorf("after a drain that etcd has not stored: %s, %q", state, problem)
	}
	nodes.setAway(nil)
	_ = nodes.put(0, fleet.StateDraining) // by the lease
	if state, _, problem := m.state(); state != fleet.StateDraining || problem != "" {
		t.Errorf("after the lease has stored the document: %s, %q", state, problem)
	}
}

// Etcd goes away once it has said that another node takes over: the node does not drain.
func TestDrainThatEtcdDoesNotStore(t *testing.T) {
	t.Parallel()
	nodes := &twoNodes{states: [2]string{fleet.StateActive, fleet.StateActive}}
	m := nodes.maintenance(t, 0, func() { nodes.setAway(errors.New("away")) })
	if err := m.Drain("ops", false); !errors.Is(err, ErrUnchecked) || m.draining() != nil {
		t.Errorf("the drain ends with %v", err)
	}
	if state, _, _ := m.state(); state != fleet.StateActive {
		t.Errorf("the node is %s", state)
	}
}

// Etcd goes away once it has stored the state, before it has named the other nodes: the node goes back, and says that others may not know it.
func TestDrainThatEtcdDoesNotConfirm(t *testing.T) {
	t.Parallel()
	nodes := &twoNodes{states: [2]string{fleet.StateActive, fleet.StateActive}}
	m := nodes.maintenance(t, 0, func() {})
	put := m.parts.registration.put
	m.parts.registration.put = func(ctx context.Context, state string) error {
		err := put(ctx, state)
		nodes.setAway(errors.New("away"))
		return err
	}
	if err := m.Drain("ops", false); !errors.Is(err, ErrUnchecked) || m.draining() != nil {
		t.Errorf("the drain ends with %v", err)
	}
	if state, _, problem := m.state(); state != fleet.StateActive || !strings.HasSuffix(problem, ": away") {
		t.Errorf("the node is %s, with the problem %q", state, problem)
	}
}
