package permits_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"colonnade/permits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config() permits.Config {
	return permits.Config{Limit: 256, PerAccount: 64, Bytes: 64 << 20, MaxWait: 10 * time.Second, PromoteAfter: 5 * time.Second}
}

// fleet returns endpoints e0, e1, … with so many slots each.
func fleet(n, concurrency int) []permits.Endpoint {
	es := make([]permits.Endpoint, n)
	for i := range es {
		es[i] = permits.Endpoint{ID: fmt.Sprintf("e%d", i), Concurrency: concurrency}
	}
	return es
}

// patient is a request that waits as long as the pool lets it.
func patient(account string) permits.Request {
	return permits.Request{Account: account, Band: permits.Standard, MaxWait: time.Hour, MaxExpected: -1}
}

func newPool(t *testing.T, c permits.Config, es ...permits.Endpoint) *permits.Pool {
	t.Helper()
	p := permits.New(c)
	p.SetEndpoints(es)
	t.Cleanup(func() { check(t, p) })
	return p
}

func check(t *testing.T, p *permits.Pool) {
	t.Helper()
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

// acquire gets a permit. Every second request without progress is detached, so that each test covers both ways. Some wait a moment before they ask to be called.
func acquire(p *permits.Pool, ctx context.Context, r permits.Request) (permits.Permit, error) {
	r.Detached = r.Progress == nil && acquired.Add(1)%2 == 0
	permit, err := p.Acquire(ctx, &r)
	if err != permits.ErrWaits {
		return permit, err
	}
	if acquired.Load()%8 == 0 {
		runtime.Gosched()
	}
	resolved := make(chan struct{})
	p.OnResolved(&r, func() { close(resolved) })
	<-resolved
	return p.Acquire(ctx, &r)
}

var acquired atomic.Uint64

func take(t *testing.T, p *permits.Pool, r permits.Request) permits.Permit {
	t.Helper()
	permit, err := acquire(p, context.Background(), r)
	if err != nil {
		t.Fatalf("Acquire(%+v): %v", r, err)
	}
	return permit
}

// wantRefusal expects a refusal with this reason, and a Retry-After in its bounds.
func wantRefusal(t *testing.T, err error, reason permits.Reason) *permits.Refusal {
	t.Helper()
	var r *permits.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("got %v, want a refusal: %s", err, reason)
	}
	if r.Reason != reason {
		t.Fatalf("refused for %s, want %s", r.Reason, reason)
	}
	if r.RetryAfter < time.Second || r.RetryAfter > 32*time.Second {
		t.Errorf("Retry-After is %v, want 1s to 32s", r.RetryAfter)
	}
	return r
}

// refuse expects that a request is refused.
func refuse(t *testing.T, p *permits.Pool, r permits.Request, reason permits.Reason) *permits.Refusal {
	t.Helper()
	permit, err := acquire(p, context.Background(), r)
	if err == nil {
		permit.Release()
	}
	return wantRefusal(t, err, reason)
}

// result is how an Acquire ended.
type result struct {
	permit permits.Permit
	err    error
}

// start runs Acquire beside the test.
func start(ctx context.Context, p *permits.Pool, r permits.Request) <-chan result {
	done := make(chan result, 1)
	go func() {
		permit, err := acquire(p, ctx, r)
		done <- result{permit, err}
	}()
	return done
}
