package admission_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"colonnade/admission"
	"colonnade/discovery/engines/figures"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/permits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scenario is a manager that runs, documents that the test changes, and engines that answer health checks as the test
// says.
type scenario struct {
	testing.TB
	*admission.Manager
	documents *document.Set

	mu        sync.Mutex                                                // guards the fields below
	unhealthy map[string]error                                          // by ID or health path
	says      map[string]func(context.Context) (figures.Figures, error) // what engines say about themselves, by ID; others have no metrics
}

// newScenario runs a manager until the test's end.
func newScenario(t testing.TB) *scenario { return newScenarioWith(t, slog.New(slog.DiscardHandler)) }

func newScenarioWith(t testing.TB, logger *slog.Logger) *scenario {
	t.Helper()
	return newFollowingScenario(t, logger, nil)
}

// newFollowingScenario runs a manager that reads events of engines by follow; nil: by no means.
func newFollowingScenario(t testing.TB, logger *slog.Logger, follow admission.FollowEvents) *scenario {
	t.Helper()
	s := &scenario{TB: t, documents: document.NewSet(), unhealthy: map[string]error{}, says: map[string]func(context.Context) (figures.Figures, error){}}
	s.Manager = admission.NewManager("ams", s.checkHealth, logger)
	s.SetFigures(s.readFigures)
	s.SetEvents(follow)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// play runs f on a scenario in a bubble of synthetic time.
func play(t *testing.T, f func(s *scenario)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newScenario(t)) })
}

func (s *scenario) readFigures(ctx context.Context, e *fleet.Endpoint) (figures.Figures, error) {
	s.mu.Lock()
	read := s.says[e.ID]
	s.mu.Unlock()
	if read == nil {
		return figures.Figures{}, admission.ErrNoFigures
	}
	return read(ctx)
}

// errHangs and errStopped make a health check end with the timeout: in time, and a minute late, as if this node had been stopped meanwhile.
var (
	errHangs   = errors.New("engine hangs")
	errStopped = errors.New("node was stopped")
)

func (s *scenario) checkHealth(ctx context.Context, e *fleet.Endpoint) error {
	s.mu.Lock()
	err := cmp.Or(s.unhealthy[e.ID], s.unhealthy[e.Health.Path])
	s.mu.Unlock()
	switch {
	case errors.Is(err, errHangs):
		<-ctx.Done()
		return ctx.Err()
	case errors.Is(err, errStopped):
		time.Sleep(time.Minute)
		return context.DeadlineExceeded
	}
	return err
}

// setHealth makes the health checks of an endpoint, by its ID or by its health path, end with err; nil: they succeed.
func (s *scenario) setHealth(of string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unhealthy[of] = err
}

// table puts documents beside those that there are, and returns the table.
func (s *scenario) table(yaml string) *fleet.Table {
	s.Helper()
	all, err := document.SplitFile([]byte(yaml))
	if err != nil {
		s.Fatal(err)
	}
	for _, d := range all {
		if err := s.documents.Put(d.Key, d.Value, 1); err != nil {
			s.Fatal(err)
		}
	}
	return s.documents.Table()
}

// put applies a table with these documents beside those that there are.
func (s *scenario) put(yaml string) {
	s.Helper()
	s.Apply(s.table(yaml))
}

// remove applies a table without a document.
func (s *scenario) remove(key string) {
	s.documents.Delete(key, 2)
	s.Apply(s.documents.Table())
}

// pool returns a pool that there must be.
func (s *scenario) pool(name string) *admission.Pool {
	s.Helper()
	p, ok := s.Pool(name)
	if !ok {
		s.Fatalf("no pool %s", name)
	}
	return p
}

// wantLoad expects so many slots of a pool in all, and so many free.
func (s *scenario) wantLoad(pool string, limit, free int, when string) {
	s.Helper()
	if l := s.pool(pool).Load(); l.Limit != limit || l.Free != free {
		s.Errorf("%s: %d of %d slots are free, want %d of %d", when, l.Free, l.Limit, free, limit)
	}
}

// take acquires a permit that must be granted without waiting.
func (s *scenario) take(pool string) admission.Grant {
	s.Helper()
	g, err := tryTake(s.pool(pool))
	if err != nil {
		s.Fatal(err)
	}
	return g
}

// tryTake acquires a permit without waiting.
func tryTake(p *admission.Pool) (admission.Grant, error) {
	return acquire(p, context.Background(), permits.Request{Account: "acme", MaxExpected: -1})
}

// waiting is a request that waits for so long.
func acquire(p *admission.Pool, ctx context.Context, r permits.Request) (admission.Grant, error) {
	return p.Acquire(ctx, &r)
}

func waiting(d time.Duration) permits.Request {
	return permits.Request{Account: "acme", MaxWait: d, MaxExpected: -1}
}

// endpoints writes documents of endpoints of a pool, at http://ID:8000.
func endpoints(pool string, concurrency int, ids ...string) string {
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&b, "---\nkey: endpoints/ams/%s\nurl: http://%s:8000\npool: %s\nconcurrency: %d\n", id, id, pool, concurrency)
	}
	return strings.TrimPrefix(b.String(), "---\n")
}
