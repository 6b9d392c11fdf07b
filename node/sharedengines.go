package node

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"colonnade/fleet"
	"colonnade/problems"
)

const (
	// resolveInterval is how often the names of engines are resolved, and resolveSoon how long after a change of the documents at the earliest.
	resolveInterval = 10 * time.Minute
	resolveSoon     = time.Minute
	resolveTimeout  = 2 * time.Second // of one name
	mostResolved    = 1000            // names
)

// sharedEngines finds endpoints whose names resolve to the same address, away from all requests. It is safe for concurrent use.
type sharedEngines struct {
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

// look resolves the names of some endpoints once.
func (s *sharedEngines) look(ctx context.Context, endpoints []*fleet.Endpoint) {
	resolved := map[string][]netip.Addr{}
	for _, e := range endpoints {
		u, err := url.Parse(e.URL)
		if err != nil || len(resolved) >= mostResolved {
			continue
		}
		host := u.Hostname()
		if _, err := netip.ParseAddr(host); err == nil || problems.IsLocalhost(host) || resolved[host] != nil {
			continue
		}
		within, cancel := context.WithTimeout(ctx, resolveTimeout)
		addresses, _ := net.DefaultResolver.LookupNetIP(within, "ip", host) // its health check reports a name without an address
		cancel()
		resolved[host] = append([]netip.Addr{}, addresses...)
	}
	found := problems.SharedEngines(endpoints, func(host string) []netip.Addr { return resolved[host] })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = found
}
