package permits_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

// tenant is how one account uses a pool for some minutes, and the result.
type tenant struct {
	account string
	weight  float64
	backlog int           // requests in flight at any time; 0: see every
	every   time.Duration // without a backlog: it sends one so often, evenly
	tokens  func(r *rand.Rand) int
	pace    time.Duration        // for each token; 0: 10 ms
	alone   time.Duration        // of that, the part that is not due to the client; 0: at most 10 ms
	learned func(output float64) // called at each grant with the estimated cost of outputs; may be nil

	mu     sync.Mutex // guards the fields below
	served int
	cost   float64         // of tokens
	slots  time.Duration   // held
	late   []time.Duration // of each wait, the part after the next slot was released; sorted in the end
}

func always(tokens int) func(*rand.Rand) int { return func(*rand.Rand) int { return tokens } }

// varied draws lengths like those of answers: many short ones, and a few that are several times as long as the mean.
func varied(mean int) func(*rand.Rand) int {
	return func(r *rand.Rand) int { return 1 + int(r.ExpFloat64()*float64(mean)) }
}

// market is a pool whose slots are all wanted.
type market struct {
	pool        *permits.Pool
	from, until time.Time // use is counted between them

	mu    sync.Mutex // guards the fields below
	freed []time.Time
}

// trade lets all tenants use one pool of eight slots for so long, in a bubble of synthetic time. Their use is counted from a
// fifth of that on, when the pool has estimates of them. Of requests that run then and before, or then and later, the part is
// counted: a tenant whose requests wait and run for long has many of these.
func trade(t *testing.T, c permits.Config, length time.Duration, tenants ...*tenant) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &market{pool: newPool(t, c, fleet(2, 4)...), from: time.Now().Add(length / 5), until: time.Now().Add(length)}
		ctx, cancel := context.WithTimeout(context.Background(), length)
		defer cancel()
		var all sync.WaitGroup
		for i, tn := range tenants {
			r := rand.New(rand.NewPCG(uint64(i), 11))
			if tn.every > 0 {
				all.Go(func() { m.visit(ctx, &all, tn, r) })
			}
			for range tn.backlog {
				own := rand.New(rand.NewPCG(r.Uint64(), 12))
				all.Go(func() {
					for ctx.Err() == nil {
						m.request(ctx, tn, own)
					}
				})
			}
		}
		all.Wait()
		for _, tn := range tenants {
			slices.Sort(tn.late)
		}
	})
}

func (m *market) visit(ctx context.Context, all *sync.WaitGroup, tn *tenant, r *rand.Rand) {
	for ctx.Err() == nil {
		own := rand.New(rand.NewPCG(r.Uint64(), 13))
		all.Go(func() { m.request(ctx, tn, own) })
		time.Sleep(tn.every)
	}
}

// request is one request of tn: it waits, runs for as long as its tokens take, and reports its use, as colos do.
func (m *market) request(ctx context.Context, tn *tenant, r *rand.Rand) {
	asked := time.Now()
	q := patient(tn.account)
	q.Weight, q.Cost = tn.weight, 4
	permit, err := acquire(m.pool, ctx, q)
	if err != nil {
		time.Sleep(time.Millisecond)
		return
	}
	if tn.learned != nil {
		for _, a := range m.pool.DetailedStats(10).Accounts {
			if a.Account == tn.account {
				if a.MeanOutput != nil {
					tn.learned(*a.MeanOutput)
				}
			}
		}
	}
	granted, tokens := time.Now(), tn.tokens(r)
	pace := tn.pace
	if pace == 0 {
		pace = 10 * time.Millisecond
	}
	alone := tn.alone
	if alone == 0 {
		alone = min(pace, 10*time.Millisecond)
	}
	for n := range 10 { // its use is reported while it runs
		time.Sleep(time.Duration(tokens) * pace / 10)
		permit.Charge(float64(tokens*2*(n+1)) / 10)
	}
	m.mu.Lock()
	next, _ := slices.BinarySearchFunc(m.freed, asked.Add(1), time.Time.Compare) // a release at the same instant may have been before
	var late time.Duration
	if next < len(m.freed) && m.freed[next].Before(granted) {
		late = granted.Sub(m.freed[next])
	}
	m.freed = append(m.freed, time.Now())
	m.mu.Unlock()
	permit.BlockedOnClient(time.Duration(tokens) * (pace - alone))
	permit.ReleaseUsed(permits.Used{Input: 4, Output: float64(tokens * 2)})
	tn.mu.Lock()
	defer tn.mu.Unlock()
	held := m.counted(granted, time.Now())
	tn.slots += held
	tn.cost += (4 + float64(tokens*2)) * held.Seconds() / time.Since(granted).Seconds()
	if !asked.Before(m.from) {
		tn.served++
		tn.late = append(tn.late, late)
	}
}

// counted returns how much of a time is counted.
func (m *market) counted(from, until time.Time) time.Duration {
	if from.Before(m.from) {
		from = m.from
	}
	if until.After(m.until) {
		until = m.until
	}
	return max(0, until.Sub(from))
}

// jain returns Jain's index of fairness: 1 where all are equal, 1/n where one has everything. (R. Jain, D. Chiu and W. Hawe,
// "A Quantitative Measure of Fairness", DEC-TR-301, 1984.)
func jain(xs ...float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range xs {
		sum += x
		squares += x * x
	}
	return sum * sum / (float64(len(xs)) * squares)
}

func byTokens() permits.Config {
	c := config()
	c.Cost, c.MaxWait, c.PerAccount = permits.ByTokens, time.Hour, 256
	return c
}

// wantFair trades for ten minutes and expects that the tenants with a backlog get equal shares, and that an account that asks
// for little is served by one of the next slots released, whatever the others do.
func wantFair(t *testing.T, leastCost, leastSlots float64, late time.Duration, tenants ...*tenant) {
	t.Helper()
	quiet := &tenant{account: "quiet", every: 3 * time.Second, tokens: always(20)}
	trade(t, byTokens(), 10*time.Minute, append(tenants, quiet)...)
	var cost, slots []float64
	for _, tn := range tenants {
		t.Logf("%-8s %6d served, cost %8.0f, slots held %v", tn.account, tn.served, tn.cost, tn.slots)
		cost, slots = append(cost, tn.cost), append(slots, tn.slots.Seconds())
	}
	if got := jain(cost...); got < leastCost {
		t.Errorf("Jain's index over what was used is %.4f, want at least %v", got, leastCost)
	}
	if got := jain(slots...); got < leastSlots {
		t.Errorf("Jain's index over slots held is %.4f, want at least %v", got, leastSlots)
	}
	t.Logf("quiet    %6d served, 99%% of them at most %v after a slot was free", quiet.served, quiet.late[len(quiet.late)*99/100])
	if got := quiet.late[len(quiet.late)*99/100]; got > late || quiet.served < 152 {
		t.Errorf("quiet: %d of 160 served, 99%% of them at most %v after the next slot was free, want %v", quiet.served, got, late)
	}
}

// An account whose requests are a hundred times as costly gets no more than the other.
func TestCostlyRequests(t *testing.T) {
	wantFair(t, 0.97, 0.99, 300*time.Millisecond,
		&tenant{account: "costly", backlog: 20, tokens: always(1000)},
		&tenant{account: "cheap", backlog: 20, tokens: always(10)})
}

// Weights are shares of cost, and not of requests.
func TestWeightsAreOfCost(t *testing.T) {
	heavy := &tenant{account: "heavy", weight: 3, backlog: 20, tokens: always(100)}
	light := &tenant{account: "light", backlog: 20, tokens: always(10)}
	trade(t, byTokens(), 5*time.Minute, heavy, light)
	if ratio := heavy.slots.Seconds() / light.slots.Seconds(); ratio < 2.7 || ratio > 3.3 {
		t.Errorf("with three times the weight it held slots for %.2f times as long", ratio)
	}
}

// Lengths that vary as those of answers do are estimated by their mean, and the errors even out.
func TestVariedLengths(t *testing.T) {
	wantFair(t, 0.98, 0.99, 300*time.Millisecond,
		&tenant{account: "varied", backlog: 20, tokens: varied(200)},
		&tenant{account: "constant", backlog: 20, tokens: always(20)})
}

// A few requests that are four hundred times as long as the others of their account are charged while they run.
func TestAFewVeryLongRequests(t *testing.T) {
	wantFair(t, 0.98, 0.99, 300*time.Millisecond,
		&tenant{account: "bimodal", backlog: 20, tokens: func(r *rand.Rand) int {
			if r.IntN(10) == 0 {
				return 2000
			}
			return 5
		}},
		&tenant{account: "constant", backlog: 20, tokens: always(100)})
}

// An account of slow readers pays for the time that it holds slots, and not only for its few tokens.
func TestSlowReadersPayForTime(t *testing.T) {
	wantFair(t, 0, 0.99, time.Second,
		&tenant{account: "slow", backlog: 20, tokens: always(50), pace: 500 * time.Millisecond},
		&tenant{account: "brisk", backlog: 20, tokens: always(50)})
}

// Slow readers use little of a slot, but do not make slots cheap by it: others keep their share.
func TestSlowReadersDoNotMakeSlotsCheap(t *testing.T) {
	for _, times := range []time.Duration{2, 3, 5, 10} {
		slow := &tenant{account: "slow", backlog: 20, tokens: always(50), pace: times * 10 * time.Millisecond}
		brisk := &tenant{account: "brisk", backlog: 20, tokens: always(50)}
		trade(t, byTokens(), 10*time.Minute, slow, brisk)
		if share := brisk.slots.Seconds() / (brisk.slots + slow.slots).Seconds(); share < 0.49 || share > 0.52 {
			t.Errorf("beside readers %d times as slow, others hold %.1f %% of the slots", times, 100*share)
		}
	}
}

// How long an engine worked for a slow reader that blocked it is not known, and does not make slots expensive either: an
// account that uses much in a short time pays for what it uses, and not as much as others for the time.
func TestSlowReadersDoNotMakeSlotsExpensive(t *testing.T) {
	slow := &tenant{account: "slow", backlog: 20, tokens: always(50), pace: 40 * time.Millisecond, alone: time.Millisecond}
	dense := &tenant{account: "dense", backlog: 20, tokens: always(50)}
	sparse := &tenant{account: "sparse", backlog: 20, tokens: always(50), pace: 40 * time.Millisecond, alone: 40 * time.Millisecond}
	trade(t, byTokens(), 10*time.Minute, slow, dense, sparse)
	if ratio := dense.slots.Seconds() / sparse.slots.Seconds(); ratio > 0.9 {
		t.Errorf("an account that uses four times as much a second holds slots for %.2f times as long as one that uses little", ratio)
	}
}

// An account that turns from long to short requests is estimated far too high for a while. Its refunds must not push out
// others.
func TestRefundsOfHighEstimates(t *testing.T) {
	const long, round = 40, 400 // of so many requests, so many are long
	var mu sync.Mutex           // guards the variables below
	n, turned, settled := 0, []float64{}, []float64{}
	turning := &tenant{account: "turning", backlog: 20, tokens: func(*rand.Rand) int {
		mu.Lock()
		defer mu.Unlock()
		if n++; n%round < long {
			return 1000
		}
		return 1
	}, learned: func(output float64) {
		mu.Lock()
		defer mu.Unlock()
		switch n % round {
		case long + 20:
			turned = append(turned, output)
		case round - 1:
			settled = append(settled, output)
		}
	}}
	wantFair(t, 0, 0.98, 800*time.Millisecond, turning, &tenant{account: "constant", backlog: 20, tokens: always(10)})
	if len(turned) < 3 || slices.Min(turned) < 200 {
		t.Errorf("right after the turn to outputs of 2, they are estimated at %.0f, want far too much", turned)
	}
	if len(settled) < 3 || slices.Min(settled) < 1 || slices.Max(settled) > 20 {
		t.Errorf("long after the turn to outputs of 2, they are estimated at %.1f", settled)
	}
}

// An account whose requests suddenly never end does not get all slots: requests are charged while they run, and not only when
// they end.
func TestChargedWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, byTokens(), fleet(1, 16)...)
		var all sync.WaitGroup
		visit := func(account string, hold func()) {
			permit, err := acquire(p, t.Context(), patient(account))
			if err != nil {
				t.Error(err)
				return
			}
			hold()
			permit.ReleaseUsed(permits.Used{Input: 1, Output: 1})
		}
		for range 64 {
			visit("warm", func() { time.Sleep(100 * time.Millisecond) })
		}
		stop := make(chan struct{})
		var stuck atomic.Int64
		for i := range 32 {
			all.Go(func() {
				for range 300 {
					visit("brisk", func() { time.Sleep(time.Duration(90+i) * time.Millisecond) })
				}
			})
			synctest.Wait()
			all.Go(func() { visit("stuck", func() { stuck.Add(1); <-stop }) })
			synctest.Wait()
		}
		time.Sleep(20 * time.Second)
		if n := stuck.Load(); n > 12 {
			t.Errorf("%d of 16 slots are held by one account, while another waits", n)
		}
		close(stop)
		all.Wait()
	})
}

// Claims of high costs that turn out false move the virtual time no further than what requests have cost: an account that
// comes meanwhile does not wait for as long as everything claimed would have taken.
func TestFalseClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, byTokens(), fleet(2, 4)...)
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		var there, came atomic.Int64
		visit := func(account string, served *atomic.Int64) {
			for ctx.Err() == nil {
				r := patient(account)
				r.Cost = 500
				permit, err := acquire(p, ctx, r)
				if err != nil {
					return
				}
				time.Sleep(time.Second)
				permit.ReleaseUsed(permits.Used{Input: 500, Output: 500})
				served.Add(1)
			}
		}
		for range 30 {
			all.Go(func() { visit("there", &there) })
		}
		time.Sleep(time.Minute)
		began, stop := time.Now(), make(chan struct{})
		for range 8 {
			all.Go(func() {
				r := patient("there")
				r.Cost, r.Arrived = 1e6, began.Add(-time.Hour) // at the head of its account
				if permit, err := acquire(p, ctx, r); err == nil {
					<-stop
					permit.ReleaseUnserved()
				}
			})
		}
		time.Sleep(5 * time.Second)
		there.Store(0)
		for range 30 {
			all.Go(func() { visit("came", &came) })
		}
		time.Sleep(10 * time.Millisecond)
		close(stop)
		all.Wait()
		if there, came := there.Load(), came.Load(); came*10 < there*9 {
			t.Errorf("%d requests of the first account are served, and %d of the one that came", there, came)
		}
	})
}

// Requests whose reported use has no price are charged their estimate: free of charge, the account that came first would keep
// all slots.
func TestUseWithoutAPrice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, byTokens(), fleet(2, 4)...)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		var first, second atomic.Int64
		visit := func(account string, served *atomic.Int64) {
			for ctx.Err() == nil {
				if permit, err := acquire(p, ctx, patient(account)); err == nil {
					time.Sleep(time.Second)
					permit.ReleaseUsed(permits.Used{})
					served.Add(1)
				}
			}
		}
		for range 20 {
			all.Go(func() { visit("first", &first) })
		}
		time.Sleep(time.Minute)
		first.Store(0)
		for range 20 {
			all.Go(func() { visit("second", &second) })
		}
		all.Wait()
		if a, b := first.Load(), second.Load(); min(a, b)*10 < max(a, b)*9 {
			t.Errorf("%d and %d served", a, b)
		}
	})
}
