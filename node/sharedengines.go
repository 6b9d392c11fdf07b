package node

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"colonnade/fleet"
	"colonnade/problems"
)

const (
	// resolveInterval is how often the names of engines are resolved, and resolveSoon how long after a change of the documents at the earliest.
	resolveInterval = 10 * time.Minute
	resolveSoon     = time.Minute
	mostResolved    = 1000 // names

	resolveTimeout    = 2 * time.Second  // of one name
	resolveAllTimeout = 30 * time.Second // of all
	resolveAtOnce     = 16               // names
)

// sharedEngines finds endpoints whose names resolve to the same address, away from all requests. It is safe for concurrent use.
type sharedEngines struct {
	lookup    func(ctx context.Context, network, host string) ([]netip.Addr, error) // nil = that of the system
	addresses map[string][]netip.Addr                                               // by name, of the last look; only the goroutine of run has it

	mu    sync.Mutex // guards the field below
	found []problems.Problem
}

func (s *sharedEngines) problems() []problems.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found
}

// run resolves the names of the colo's engines until ctx is done: when the documents have changed, and every ten minutes. The first time comes at
// once.
func (s *sharedEngines) run(ctx context.Context, colo string, watcher documents) error {
	for {
		changed := watcher.Changed()
		s.look(ctx, watcher.Table().EndpointsOf(colo))
		soon, later := time.NewTimer(resolveSoon), time.NewTimer(resolveInterval)
		select {
		case <-ctx.Done():
		case <-later.C:
		case <-soon.C:
			select {
			case <-ctx.Done():
			case <-later.C:
			case <-changed:
			}
		}
		soon.Stop()
		later.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// look resolves the names of some endpoints once. It must not be called twice at the same time.
func (s *sharedEngines) look(ctx context.Context, endpoints []*fleet.Endpoint) {
	s.addresses = s.resolve(ctx, namesOf(endpoints))
	found := problems.SharedEngines(endpoints, func(host string) []netip.Addr { return s.addresses[host] })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = found
}

// namesOf returns the hosts of endpoints that have to be resolved, each once, and at most mostResolved.
func namesOf(endpoints []*fleet.Endpoint) (names []string) {
	known := map[string]bool{}
	for _, e := range endpoints {
		u, err := url.Parse(e.URL)
		if err != nil || len(names) >= mostResolved {
			continue
		}
		host := u.Hostname()
		if _, err := netip.ParseAddr(host); err == nil || problems.IsLocalhost(host) || known[host] {
			continue
		}
		known[host] = true
		names = append(names, host)
	}
	return names
}

// resolve returns the addresses of names. A name that cannot be resolved now keeps the addresses that it had: a name server that is away
// does not make two engines of one. The health check of an endpoint reports a name without an address.
func (s *sharedEngines) resolve(ctx context.Context, names []string) map[string][]netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, resolveAllTimeout)
	defer cancel()
	found := make([][]netip.Addr, len(names))
	group := new(errgroup.Group)
	group.SetLimit(resolveAtOnce)
	for i, name := range names {
		group.Go(func() error {
			found[i] = s.addressesOf(ctx, name)
			return nil
		})
	}
	_ = group.Wait()
	all := make(map[string][]netip.Addr, len(names))
	for i, name := range names {
		all[name] = found[i]
	}
	return all
}

func (s *sharedEngines) addressesOf(ctx context.Context, name string) []netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	lookup := s.lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupNetIP
	}
	if ctx.Err() == nil {
		if addresses, err := lookup(ctx, "ip", name); err == nil {
			return addresses
		}
	}
	return s.addresses[name]
}
