package proctest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// FaultKind says what a fault does to its target.
type FaultKind string

// Faults of servers, of the way to etcd (also of an entry), of etcd, and of hosts. Those of hosts need namespaces.
const (
	Kill    FaultKind = "kill"    // SIGKILL; the same server is started again after For
	Replace FaultKind = "replace" // SIGKILL; the server Other is started after For
	Stop    FaultKind = "stop"    // SIGSTOP, and SIGCONT after For
	Restart FaultKind = "restart" // SIGTERM; the same server is started again after For, once it has ended
	Leave   FaultKind = "leave"   // SIGTERM; the server Other is started after For
	Join    FaultKind = "join"    // a new server is started, and gets SIGTERM after For

	CutEtcd   FaultKind = "cut-etcd" // what passes between the node and etcd is lost for so long
	KillEtcd  FaultKind = "kill-etcd"
	PauseEtcd FaultKind = "pause-etcd"

	CutHost FaultKind = "cut-host" // what the host of the server sends and receives is lost for so long
	Split   FaultKind = "split"    // what passes between the two servers is lost for so long
)

// Fault is one fault of a history.
type Fault struct {
	At, For time.Duration // from the start of the history; how long it lasts
	Kind    FaultKind
	Target  string // a node; of faults of etcd: none
	Other   string
}

func (f Fault) String() string {
	text := fmt.Sprintf("%v %s %s", f.At, f.Kind, f.Target)
	if f.Other != "" {
		text += " " + f.Other
	}
	return fmt.Sprintf("%s for %v", text, f.For)
}

// silent reports whether the server says nothing while the fault lasts, although it has not ended.
func (f Fault) silent() bool { return f.Kind == Stop || f.Kind == CutHost }

// action is one of the two ends of a fault.
type action struct {
	at    time.Duration
	text  string
	apply func()
}

// Inject injects the faults of a history at their times, and returns when the last has ended. It logs them beforehand, so that
// a history that fails can be repeated.
func (f *Fleet) Inject(history []Fault) (began time.Time) {
	f.T.Helper()
	var lines []string
	var actions []action
	for _, fault := range history {
		lines = append(lines, fault.String())
		begin, end := f.actions(fault)
		actions = append(actions, action{fault.At, fault.String(), begin}, action{fault.At + fault.For, "end of " + fault.String(), end})
	}
	f.T.Logf("history:\n  %s", strings.Join(lines, "\n  "))
	slices.SortStableFunc(actions, func(a, b action) int { return cmp.Compare(a.at, b.at) })
	began = time.Now()
	for _, a := range actions {
		time.Sleep(time.Until(began.Add(a.at)))
		if late := time.Since(began) - a.at; late > time.Second {
			f.T.Logf("%v late: %s", late.Round(time.Millisecond), a.text)
		}
		a.apply()
	}
	return began
}

// actions returns what begins and what ends a fault.
func (f *Fleet) actions(fault Fault) (begin, end func()) {
	target := func() *Node { return f.node(fault.Target) }
	switch fault.Kind {
	case Kill:
		return func() { target().Kill() }, func() { target().Start() }
	case Replace:
		return func() { target().Kill() }, func() { f.StartServer(fault.Other) }
	case Stop:
		return func() { target().Pause() }, func() { target().Resume() }
	case Restart:
		return func() { target().Terminate() }, func() { target().awaitLeave(); target().Start() }
	case Leave:
		return func() { target().Terminate() }, func() { f.StartServer(fault.Other) }
	case Join:
		return func() { f.StartServer(fault.Target) }, func() { target().Terminate() }
	case CutEtcd:
		return func() { target().CutEtcd() }, func() { target().HealEtcd() }
	case KillEtcd:
		return func() { f.Etcd.Kill(f.T) }, func() { f.Etcd.Restart(f.T) }
	case PauseEtcd:
		return func() { f.Etcd.Pause(f.T) }, func() { f.Etcd.Resume(f.T) }
	case CutHost:
		return func() { target().CutHost() }, func() { target().HealHost() }
	case Split:
		return func() { target().Split(f.node(fault.Other)) }, func() { target().Join(f.node(fault.Other)) }
	}
	f.T.Fatalf("no fault has the kind %q", fault.Kind)
	return nil, nil
}

// node returns the entry or the server with this name.
func (f *Fleet) node(name string) *Node {
	f.T.Helper()
	if i := slices.IndexFunc(f.Entries, func(n *Node) bool { return n.Name == name }); i >= 0 {
		return f.Entries[i]
	}
	return f.Server(name)
}

// Settle waits for the end of the servers that drain, and until the fleet is ready.
func (f *Fleet) Settle() {
	f.T.Helper()
	for _, n := range f.Servers {
		if n.draining {
			n.awaitLeave()
		}
	}
	f.WaitReady()
}

// SilentHold is how long a server may be silent before others stop counting what it still holds.
const SilentHold = 10 * time.Second

// CheckLimits fails the test if an engine was over its limit, but for the exceptions, which are logged. All requests must have
// ended.
//
//   - A server was silent for longer than SilentHold in the history, and requests that it had still ran.
//   - The host of a server was cut off, also from the engines: an engine does not hear then that a request was cancelled.
func (f *Fleet) CheckLimits(began time.Time, history []Fault) {
	f.T.Helper()
	for _, e := range f.Engines {
		for _, x := range e.Excesses() {
			at := x.From.Sub(began).Round(time.Millisecond)
			text := fmt.Sprintf("engine %s was over its limit of %d by %d at %v, for %v", x.Engine, e.Limit, x.Most, at, x.To.Sub(x.From))
			if !slices.ContainsFunc(history, func(fault Fault) bool { return fault.excepts(at) }) {
				f.T.Error(text)
				continue
			}
			f.T.Logf("the exception: %s", text)
		}
	}
}

// CheckPeaks is CheckLimits without exceptions.
func (f *Fleet) CheckPeaks() {
	f.T.Helper()
	f.CheckLimits(time.Now(), nil)
}

// excepts reports whether an engine may be over its limit at a time because of the fault.
func (f Fault) excepts(at time.Duration) bool {
	if f.Kind == CutHost && at >= f.At && at <= f.At+3*f.For+3*time.Second { // TCP's next attempt comes after as long again
		return true
	}
	return f.silent() && f.For >= SilentHold && at >= f.At+SilentHold
}
