package proctest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// RandomConfig bounds a random history.
type RandomConfig struct {
	Servers     int // at the start
	Entries     int
	Length      time.Duration // in which faults begin
	Pause       time.Duration // between the beginnings of two faults, on average
	Longest     time.Duration // that a fault lasts
	LongestStop time.Duration // that a server is silent
	Kinds       []FaultKind
}

// ProcessFaults returns the kinds that need no namespaces.
func ProcessFaults() []FaultKind {
	return []FaultKind{Kill, Replace, Stop, Restart, Leave, Join, CutEtcd, KillEtcd, PauseEtcd}
}

// recovery is how long the target of a fault is left alone after it. A server that drains ends later than its fault.
const recovery = 3 * time.Second

// RandomFaults returns a history. No node has two faults at a time, and etcd neither.
func RandomFaults(dice *rand.Rand, c RandomConfig) (history []Fault) {
	r := randomHistory{Rand: dice, c: c, busy: map[string]time.Duration{}, next: c.Servers + 1}
	for i := range c.Servers {
		r.servers = append(r.servers, serverName(i+1))
	}
	for at := r.between(0, c.Pause); at < c.Length; at += r.between(c.Pause/4, c.Pause*7/4) {
		if fault, ok := r.fault(at); ok {
			history = append(history, fault)
		}
	}
	return history
}

func serverName(number int) string { return fmt.Sprintf("%s-%d", Colo, number) }

// randomHistory is the state of a fleet, as far as a history decides it.
type randomHistory struct {
	*rand.Rand
	c       RandomConfig
	servers []string                 // those that run, or will run again
	busy    map[string]time.Duration // until when a node, or etcd, has a fault
	next    int                      // number of the next new server
}

func (r *randomHistory) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(r.Int64N(int64(most-least)+1))).Round(time.Millisecond)
}

// fault returns the next fault, if a target for its kind is free.
func (r *randomHistory) fault(at time.Duration) (f Fault, ok bool) {
	f = Fault{At: at, Kind: r.c.Kinds[r.IntN(len(r.c.Kinds))], For: r.between(50*time.Millisecond, r.c.Longest)}
	if f.silent() {
		f.For = r.between(200*time.Millisecond, r.c.LongestStop)
	}
	switch f.Kind {
	case KillEtcd, PauseEtcd:
		ok = r.take("etcd", at, f.For)
		return f, ok
	case Join:
		f.Target = r.newServer(at + f.For)
		r.drop(f.Target) // it will leave
		return f, true
	}
	if f.Target = r.target(f, at); f.Target == "" {
		return f, false
	}
	switch f.Kind {
	case Replace, Leave:
		r.drop(f.Target)
		f.Other = r.newServer(at + f.For)
	case Split:
		if f.Other = r.target(f, at); f.Other == "" {
			return f, false
		}
	}
	return f, true
}

// target takes a node that is free at this time: a server, or, to be cut from etcd, also an entry.
func (r *randomHistory) target(f Fault, at time.Duration) string {
	names := slices.Clone(r.servers)
	if f.Kind == CutEtcd {
		for i := range r.c.Entries {
			names = append(names, fmt.Sprintf("edge-%d", i+1))
		}
	}
	name := names[r.IntN(len(names))]
	if !r.take(name, at, f.For+recovery) {
		return ""
	}
	return name
}

func (r *randomHistory) take(name string, at, length time.Duration) bool {
	if r.busy[name] > at {
		return false
	}
	r.busy[name] = at + length
	return true
}

// newServer returns a server that has no fault before it has started.
func (r *randomHistory) newServer(started time.Duration) (name string) {
	name = serverName(r.next)
	r.next++
	r.servers = append(r.servers, name)
	r.busy[name] = started + time.Second
	return name
}

func (r *randomHistory) drop(name string) {
	r.servers = slices.DeleteFunc(r.servers, func(n string) bool { return n == name })
}
