package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/fleet"
)

func namedEngines(n int) (all []*fleet.Endpoint) {
	for i := range n {
		all = append(all, &fleet.Endpoint{Colo: "ams", ID: fmt.Sprint(i), URL: fmt.Sprintf("http://gpu-%d:8000", i)})
	}
	return all
}

// Names are resolved several at once, but not all of them, and a name server that does not answer delays a look for a bounded time only.
func TestNamesAreResolvedInParallel(t *testing.T) {
	t.Parallel()
	f := func(names int, answer, want time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex // guards the fields below
			running, most := 0, 0
			count := func(change int) {
				mu.Lock()
				defer mu.Unlock()
				running += change
				most = max(most, running)
			}
			s := &sharedEngines{lookup: func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
				count(1)
				defer count(-1)
				select {
				case <-time.After(answer):
					return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}}
			began := time.Now()
			s.look(t.Context(), namedEngines(names))
			if took := time.Since(began); took != want || most != resolveAtOnce {
				t.Errorf("%d names took %s, want %s; %d at once", names, took, want, most)
			}
		})
	}
	f(4*resolveAtOnce, time.Second, 4*time.Second)
	f(mostResolved, time.Hour, resolveAllTimeout)
}

// A name that cannot be resolved for a while keeps its addresses, so that a warning does not come and go with the name server.
func TestNamesKeepTheirAddresses(t *testing.T) {
	t.Parallel()
	var failure error
	s := &sharedEngines{lookup: func(context.Context, string, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, failure
	}}
	for _, failure = range []error{nil, errors.New("no answer"), errors.New("no answer")} {
		s.look(t.Context(), namedEngines(2))
		if len(s.problems()) != 1 {
			t.Errorf("error %v: %v", failure, s.problems())
		}
	}
	if s.look(t.Context(), namedEngines(1)); len(s.problems()) > 0 {
		t.Errorf("of one engine: %v", s.problems())
	}
}
