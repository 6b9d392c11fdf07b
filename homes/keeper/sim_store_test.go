package keeper_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/homes"
)

// store is a model of etcd: registrations, records, and watches that see changes in their order, a few milliseconds late.
type store struct {
	mu       sync.Mutex // guards the fields below
	revision int64
	servers  map[string]lease // by node
	records  map[homes.Process]homes.Record
	log      []homes.Change
	changed  chan struct{} // closed with the next change
	away     bool
}

// lease is the registration of one process.
type lease struct {
	homes.Process
	draining bool
	expires  time.Time
}

func newStore() *store {
	return &store{
		revision: 1, servers: map[string]lease{}, records: map[homes.Process]homes.Record{}, changed: make(chan struct{}),
	}
}

var errAway = errors.New("the store does not answer")

// call runs a transaction, unless the process does not reach the store. do reports what it changes in the records.
func (s *store) call(p *process, do func(revision int64) (put []homes.Record, deleted []homes.Process, changed bool)) error {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away || p.cut.Load() {
		return errAway
	}
	s.expireLocked()
	put, deleted, changed := do(s.revision + 1)
	if changed {
		s.commitLocked(put, deleted)
	}
	return nil
}

func (s *store) commitLocked(put []homes.Record, deleted []homes.Process) {
	s.revision++
	for i := range put {
		put[i].Revision = s.revision
		put[i].Owns, put[i].Held = maps.Clone(put[i].Owns), maps.Clone(put[i].Held)
		s.records[put[i].Process] = put[i]
	}
	for _, p := range deleted {
		delete(s.records, p)
	}
	s.log = append(s.log, homes.Change{Revision: s.revision, Put: put, Deleted: deleted})
	close(s.changed)
	s.changed = make(chan struct{})
}

// expireLocked ends the leases that were not renewed in time.
func (s *store) expireLocked() {
	for node, l := range s.servers {
		if time.Now().After(l.expires) {
			delete(s.servers, node)
			s.commitLocked(nil, nil)
		}
	}
}

// setAway takes the store away or brings it back; leases then begin anew.
func (s *store) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
	for node, l := range s.servers {
		l.expires = time.Now().Add(ttl)
		s.servers[node] = l
	}
}

// registered reports whether the process is registered. The caller is in a call.
func (s *store) registered(p homes.Process) bool { return s.servers[p.Node].Process == p }

// register registers a process with a record that owns nothing.
func (s *store) register(p *process, held map[string]int) (revision int64, err error) {
	err = s.call(p, func(next int64) ([]homes.Record, []homes.Process, bool) {
		if l, taken := s.servers[p.Node]; taken && l.Process != p.Process && !slices.Contains(p.ended, l.Boot) {
			return nil, nil, false
		}
		s.servers[p.Node] = lease{p.Process, p.draining.Load(), time.Now().Add(ttl)}
		p.put++
		revision = next
		return []homes.Record{{Process: p.Process, Put: p.put, Address: p.address, Held: held}}, nil, true
	})
	return revision, err
}

// renew renews the lease, and reports whether the registration and the record stand.
func (s *store) renew(p *process) (stands bool, err error) {
	err = s.call(p, func(int64) ([]homes.Record, []homes.Process, bool) {
		l := s.servers[p.Node]
		if stands = l.Process == p.Process && s.records[p.Process].Put == p.put; !stands {
			return nil, nil, false
		}
		changed := l.draining != p.draining.Load()
		s.servers[p.Node] = lease{p.Process, p.draining.Load(), time.Now().Add(ttl)}
		return nil, nil, changed
	})
	return stands, err
}

// putRecord puts the record of a process that is registered.
func (s *store) putRecord(p *process, owns, held map[string]int) (revision int64, err error) {
	lost := false
	err = s.call(p, func(next int64) ([]homes.Record, []homes.Process, bool) {
		if lost = !s.registered(p.Process) || s.records[p.Process].Put != p.put; lost {
			return nil, nil, false
		}
		p.put++
		revision = next
		return []homes.Record{{Process: p.Process, Put: p.put, Address: p.address, Owns: owns, Held: held}}, nil, true
	})
	if lost {
		return 0, etcd.ErrRecordLost
	}
	return revision, err
}

// replace changes the record of a process that is not registered.
func (s *store) replace(p *process, old homes.Record, next *homes.Record) (done bool, err error) {
	err = s.call(p, func(int64) ([]homes.Record, []homes.Process, bool) {
		if done = !s.registered(old.Process) && s.records[old.Process].Revision == old.Revision; !done {
			return nil, nil, false
		}
		if next == nil {
			return nil, []homes.Process{old.Process}, true
		}
		return []homes.Record{*next}, nil, true
	})
	return done, err
}

// leave removes the registration and the record of a process that is done.
func (s *store) leave(p *process) error {
	return s.call(p, func(int64) ([]homes.Record, []homes.Process, bool) {
		if !s.registered(p.Process) {
			return nil, nil, false
		}
		delete(s.servers, p.Node)
		return nil, []homes.Process{p.Process}, true
	})
}

// follow passes the changes of the records to the process, in their order, and the table when it may have changed.
func (s *store) follow(ctx context.Context, p *process) {
	var after int64
	for ctx.Err() == nil {
		s.mu.Lock()
		s.expireLocked()
		changed, reaches := s.changed, !s.away && !p.cut.Load()
		var changes []homes.Change
		var servers []*fleet.Server
		if reaches {
			changes, after = s.changesLocked(after), s.revision
			servers = s.serversLocked()
		}
		s.mu.Unlock()
		if reaches {
			for _, c := range changes {
				p.keeper.Observe(c)
			}
			p.apply(servers)
		}
		select {
		case <-ctx.Done():
		case <-changed:
			time.Sleep(p.delay())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// changesLocked returns the changes after a revision; after 0, a list.
func (s *store) changesLocked(after int64) []homes.Change {
	if after > 0 {
		var changes []homes.Change
		for _, c := range s.log {
			if c.Revision > after {
				changes = append(changes, c)
			}
		}
		return changes
	}
	return []homes.Change{{Revision: s.revision, Listed: true, Put: slices.Collect(maps.Values(s.records))}}
}

func (s *store) serversLocked() []*fleet.Server {
	var servers []*fleet.Server
	for _, l := range s.servers {
		state := fleet.StateActive
		if l.draining {
			state = fleet.StateDraining
		}
		servers = append(servers, &fleet.Server{
			Colo: "ams", Node: l.Node, Boot: l.Boot, Address: l.Node, State: state, Protocol: fleet.ProtocolRange{Min: 1, Max: fleet.Protocol},
		})
	}
	slices.SortFunc(servers, func(a, b *fleet.Server) int { return strings.Compare(a.Node, b.Node) })
	return servers
}
