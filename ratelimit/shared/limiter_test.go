package shared_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/internal/faultproxy"
	"colonnade/internal/redistest"
	"colonnade/internal/testkit"
	"colonnade/ratelimit"
	"colonnade/ratelimit/shared"
)

// start runs a node's limiter until stop is called, or the test ends. The time limit of an answer is generous for slow machines.
func start(t *testing.T, url, file string, nodes int) (l *shared.Limiter, stop func()) {
	t.Helper()
	l, err := shared.New(shared.Config{
		Redis: url, Timeout: 5 * time.Second, Nodes: func() int { return nodes }, File: file, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return l, stop
}

func demand(limit, amount float64) []ratelimit.Demand {
	return []ratelimit.Demand{{Key: "requests/account/acme", Limit: limit, Amount: amount}}
}

func take(l *shared.Limiter, d []ratelimit.Demand) ratelimit.Level { return l.Take(d, time.Now())[0] }

// Two nodes take from one bucket, all of a request's demands or none, and see what the other has taken.
func TestNodesShareABucket(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	a, _ := start(t, redis.URL(), "", 2)
	b, _ := start(t, redis.URL(), "", 2)
	both := append(demand(0.1, 1), ratelimit.Demand{Key: "wide", Limit: 100, Amount: 1}) // one in ten minutes
	if levels := a.Take(both, time.Now()); !ratelimit.Allowed(levels) || levels[1].Remaining < 99 || levels[1].Remaining > 99.9 {
		t.Fatalf("the first: %+v", levels)
	}
	levels := b.Take(both, time.Now())
	if ratelimit.Allowed(levels) || levels[0].Wait < 9*time.Minute || levels[0].Wait > 10*time.Minute || levels[1].Wait != 0 {
		t.Errorf("the second: %+v", levels)
	}
	if l := take(b, both[1:]); l.Remaining > 99 { // 98, and what has flowed in
		t.Logf("refilled to %v", l.Remaining)
	}
	for range 200 { // a hundred of a full bucket, and what flows in
		take(a, demand(100, 1))
	}
	if s := a.State(); !s.Redis || !s.Away.IsZero() || s.Err != nil {
		t.Errorf("state: %+v", s)
	}
}

// The difference to the estimate arrives with the next request of the same limit, and with no request soon after.
func TestSettlementArrives(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	a, _ := start(t, redis.URL(), "", 1)
	b, _ := start(t, redis.URL(), "", 1)
	if l := take(a, demand(1, 1)); l.Wait != 0 || l.Taken != 1 {
		t.Fatalf("the first: %+v", l)
	}
	a.Settle(demand(1, -1), time.Now())
	if l := take(a, demand(1, 1)); l.Wait != 0 {
		t.Errorf("it was returned: %+v", l)
	}
	a.Settle(demand(1, 10), time.Now())
	testkit.WaitFor(t, "the other node to see it", func() bool { return take(b, demand(1, 1)).Wait > 9*time.Minute })
}

// Without Redis, each node enforces its share.
func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	l, _ := start(t, "", "", 2)
	now := time.Now()
	for range 2 {
		if l := l.Take(demand(4, 1), now)[0]; l.Wait != 0 {
			t.Errorf("of its share: %+v", l)
		}
	}
	if l := l.Take(demand(4, 1), now)[0]; l.Wait != 30*time.Second {
		t.Errorf("beyond its share: %+v", l)
	}
}

// Two nodes that are asked all the time never grant more together than one bucket would: with Redis, while it is killed, while it is away, and
// after it has come back without its state.
func TestNeverMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	const limit = 1200 // 20 a second
	redis := redistest.Start(t)
	var mu sync.Mutex
	var taken []time.Time
	var refused time.Time // the last time
	a, _ := start(t, redis.URL(), "", 2)
	b, _ := start(t, redis.URL(), "", 2)
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for _, l := range []*shared.Limiter{a, b} {
		asking.Go(func() {
			for ctx.Err() == nil {
				wait := take(l, demand(limit, 10)).Wait
				mu.Lock()
				if wait == 0 {
					taken = append(taken, time.Now())
				} else {
					refused = time.Now()
				}
				mu.Unlock()
				time.Sleep(time.Millisecond)
			}
		})
	}
	usedUp := func() {
		t.Helper()
		after := time.Now()
		testkit.WaitFor(t, "a grant, and a refusal", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(taken) > 0 && taken[len(taken)-1].After(after) && refused.After(after)
		})
	}
	away := func(l *shared.Limiter) bool { return !l.State().Away.IsZero() }
	began := time.Now()
	usedUp()
	redis.Kill()
	testkit.WaitFor(t, "both to notice", func() bool { return away(a) && away(b) })
	usedUp()
	redis.Run()
	testkit.WaitFor(t, "both to come back", func() bool { return !away(a) && !away(b) })
	usedUp()
	cancel()
	asking.Wait()
	elapsed := time.Since(began).Minutes()
	// A request in flight when Redis died may be granted by both; a share may hold one request more than its bucket.
	if n, most := float64(10*len(taken)), limit*(1+elapsed)+2*10; n > most {
		t.Errorf("%v units were granted in %v minutes, at most %v are allowed", n, elapsed, most)
	}
}

// startBehindProxy runs a node's limiter that reaches Redis through a proxy. cut makes Redis unreachable, and heal ends that.
func startBehindProxy(t *testing.T, redis *redistest.Server) (l *shared.Limiter, cut, heal func()) {
	t.Helper()
	proxy := testkit.NewProxy(t, strings.TrimPrefix(redis.URL(), "redis://"))
	l, _ = start(t, "redis://"+proxy.Address, "", 1)
	heal = func() {
		t.Helper()
		proxy.Heal()
		testkit.WaitFor(t, "Redis to be reached again", func() bool { return l.State().Away.IsZero() })
	}
	return l, func() { proxy.Inject(faultproxy.Fault{Kind: faultproxy.Reset}) }, heal
}

// A node that alone does not reach Redis tells it afterwards what it has granted meanwhile.
func TestGrantsOfASeparatedNodeCount(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	a, cut, heal := startBehindProxy(t, redis)
	if l := take(a, demand(1, 0)); l.Remaining < 0.99 {
		t.Fatalf("before: %+v", l)
	}
	cut()
	testkit.WaitFor(t, "the node to notice", func() bool { take(a, demand(1, 1)); return !a.State().Away.IsZero() })
	for hours := range 5 { // each time, its own bucket is full again
		if l := a.Take(demand(1, 1), time.Now().Add(time.Duration(1+hours)*time.Hour))[0]; l.Taken != 1 {
			t.Fatalf("of its own bucket: %+v", l)
		}
	}
	heal()
	b, _ := start(t, redis.URL(), "", 1)
	if l := take(b, demand(1, 1)); l.Wait == 0 || l.Wait > time.Minute { // the common bucket is empty, and not overdrawn
		t.Errorf("another node gets the same unit, or waits for more than one: %+v", l)
	}
}

// Of an adjustment that may not have arrived, what was used is sent again, and what is to be returned is not.
func TestAdjustmentsWhileRedisIsLost(t *testing.T) {
	t.Parallel()
	f := func(amount float64, wait func(time.Duration) bool) {
		t.Helper()
		redis := redistest.Start(t)
		a, cut, heal := startBehindProxy(t, redis)
		if l := take(a, demand(1, 1)); l.Taken != 1 {
			t.Fatalf("before: %+v", l)
		}
		cut()
		a.Settle(demand(1, amount), time.Now()) // it does not know yet that Redis is away
		testkit.WaitFor(t, "the node to notice", func() bool { return !a.State().Away.IsZero() })
		heal()
		if l := take(a, demand(1, 1)); !wait(l.Wait) {
			t.Errorf("an adjustment by %v: %+v", amount, l)
		}
	}
	f(10, func(d time.Duration) bool { return d > 9*time.Minute })
	f(-1, func(d time.Duration) bool { return d > 0 && d <= time.Minute })
}

// A budget is what all nodes have spent. It survives the restart of a node, and the loss of the data of Redis.
func TestBudgetSurvives(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "budgets.json")
	budget := []ratelimit.Demand{{Key: "cost/today", Limit: 10, Ends: time.Now().Add(time.Hour)}}
	spend := func(l *shared.Limiter, amount float64) {
		d := budget[0]
		d.Amount = amount
		l.Settle([]ratelimit.Demand{d}, time.Now())
	}
	a, stop := start(t, redis.URL(), file, 2)
	b, _ := start(t, redis.URL(), "", 2)
	spend(a, 6)
	spend(b, 5)
	testkit.WaitFor(t, "both to be counted", func() bool { return take(a, budget).Spent == 11 && take(b, budget).Wait > 0 })
	stop()
	redis.Kill()
	redis.Run()
	c, stopC := start(t, redis.URL(), file, 2)
	if l := take(c, budget); l.Wait == 0 || l.Spent != 11 {
		t.Errorf("after the restart: %+v", l)
	}
	spend(c, 2) // no request follows that would learn the sum from Redis
	stopC()
	redis.Kill()
	redis.Run()
	d, _ := start(t, redis.URL(), file, 2)
	if l := take(d, budget); l.Spent != 13 {
		t.Errorf("after the second restart: %+v", l)
	}
}

// A request that a budget refuses takes nothing of the other limits.
func TestSpentBudgetTakesNothing(t *testing.T) {
	t.Parallel()
	for _, url := range []string{redistest.Start(t).URL(), ""} {
		l, _ := start(t, url, "", 1)
		both := append(demand(1, 1), ratelimit.Demand{Key: "cost/today", Limit: 10, Ends: time.Now().Add(time.Hour)})
		spent := both[1]
		spent.Amount = 10
		l.Settle([]ratelimit.Demand{spent}, time.Now())
		testkit.WaitFor(t, "the budget to be spent", func() bool { return take(l, both[1:]).Spent == 10 })
		if levels := l.Take(both, time.Now()); ratelimit.Allowed(levels) || levels[1].Wait == 0 {
			t.Errorf("beyond the budget: %+v", levels)
		}
		if l := take(l, both[:1]); l.Wait != 0 {
			t.Errorf("a request was counted that was refused: %+v", l)
		}
	}
}

// Without Redis, the file keeps the sums of budgets; one that cannot be read is an error.
func TestFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "budgets.json")
	budget := []ratelimit.Demand{{Key: "cost/today", Limit: 10, Amount: 10, Ends: time.Now().Add(time.Hour)}}
	a, stop := start(t, "", file, 1)
	a.Settle(budget, time.Now())
	stop()
	b, _ := start(t, "", file, 1)
	if l := take(b, budget); l.Wait == 0 || math.Abs(l.Spent-10) > 1e-9 {
		t.Errorf("after the restart: %+v", l)
	}
	if _, err := shared.New(shared.Config{File: t.TempDir()}); err == nil {
		t.Error("a directory was read as a file")
	}
}

// The errors of a URL do not show it: it may have a password.
func TestURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://:secret@h", "redis://:secret@h:port", "secret"} {
		_, err := shared.New(shared.Config{Redis: url})
		if err == nil || strings.Contains(fmt.Sprint(err, errors.Unwrap(err)), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
