package permits_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"colonnade/permits"
)

// line has requests that wait for a slot, in a bubble of synthetic time in which no time passes: slots cost nothing, and only
// the use that is reported counts.
type line struct {
	t      *testing.T
	pool   *permits.Pool
	served []string         // accounts, in order
	held   []permits.Permit // of the same requests
}

// join adds so many requests of an account to those that wait.
func (l *line) join(account string, cost float64, requests int) {
	r := patient(account)
	r.Cost = cost
	l.joinAll(r, requests)
}

func (l *line) joinAll(r permits.Request, requests int) {
	for range requests {
		go func() {
			permit, err := acquire(l.pool, context.Background(), r)
			if err != nil {
				l.t.Errorf("Acquire(%+v): %v", r, err)
				return
			}
			l.served, l.held = append(l.served, r.Account), append(l.held, permit)
		}()
		synctest.Wait() // so that they arrive one after the other
	}
}

// serve releases the permits held, in order, until no request waits.
func (l *line) serve(release func(account string, t permits.Permit)) {
	synctest.Wait()
	for n := 0; n < len(l.held); n++ {
		release(l.served[n], l.held[n])
		synctest.Wait()
	}
}

func (l *line) expect(want string) {
	l.t.Helper()
	if got := strings.Join(l.served, " "); got != want {
		l.t.Errorf("served in the order %s, want %s", got, want)
	}
}

// A request that asks for a hundred outputs counts as a hundred, also before anything is known of what outputs cost: the account that
// sends such requests gets its share of slots, and not a hundred times that.
func TestManyOutputsAreCharged(t *testing.T) {
	requests := config()
	requests.Cost = permits.ByRequests
	for name, c := range map[string]permits.Config{"by requests": requests, "by tokens": byTokens()} {
		synctest.Test(t, func(t *testing.T) {
			l := line{t: t, pool: newPool(t, c, fleet(1, 1)...)}
			take(t, l.pool, patient("other")).ReleaseUsed(permits.Used{Input: 1, Output: 1})
			held := take(t, l.pool, patient("other"))
			many := patient("many")
			many.Outputs, many.Cost = 100, 1
			l.joinAll(many, 3)
			l.join("single", 1, 10)
			held.Release()
			l.serve(func(_ string, permit permits.Permit) { permit.Release() })
			if first := strings.Join(l.served[:11], " "); strings.Count(first, "many") != 1 {
				t.Errorf("%s: served first were %s, want one request for many outputs beside ten for one", name, first)
			}
		})
	}
}

// The cost of an account's last requests decides how many slots it gets before any of its next ones has ended.
func TestEstimatesAreLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line{t: t, pool: newPool(t, byTokens(), fleet(1, 8)...)}
		take(t, l.pool, patient("long")).ReleaseUsed(permits.Used{Input: 1, Output: 99})
		take(t, l.pool, patient("short")).ReleaseUsed(permits.Used{Input: 1, Output: 1})
		held, _ := takeAll(t, l.pool, permits.Request{Account: "holds", Band: permits.Standard})
		l.join("long", 1, 4)
		l.join("short", 1, 8)
		for _, permit := range held {
			permit.Release()
			synctest.Wait()
		}
		l.expect("long short short short short short short short")
		l.serve(func(_ string, p permits.Permit) { p.Release() })
	})
}

// The cost that the holder of a permit reports counts at once, and not only when its request ends.
func TestReportedCostCountsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line{t: t, pool: newPool(t, byTokens(), fleet(1, 2)...)}
		long := take(t, l.pool, patient("long"))
		other := take(t, l.pool, patient("other"))
		l.join("long", 1, 2)
		l.join("short", 1, 4)
		long.Charge(100)
		other.Release()
		l.serve(func(_ string, p permits.Permit) { p.Release() })
		l.expect("short short short short long long")
		long.Release()
	})
}

// A request that got nothing of an answer is not charged its estimate.
func TestUnservedCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line{t: t, pool: newPool(t, byTokens(), fleet(1, 1)...)}
		held := take(t, l.pool, patient("holds"))
		l.join("unlucky", 100, 2)
		l.join("served", 10, 3)
		held.Release()
		l.serve(func(account string, p permits.Permit) {
			if account == "unlucky" {
				p.ReleaseUnserved()
			} else {
				p.Release()
			}
		})
		l.expect("unlucky served unlucky served served") // one each, then the account that was charged less
	})
}
