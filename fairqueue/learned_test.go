package fairqueue_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"colonnade/fairqueue"
)

func learning() fairqueue.Config {
	c := roomy
	c.Learn = true
	return c
}

// costs runs and ends a request of an account that costs this much.
func costs(t *testing.T, q *fairqueue.Queue, c fairqueue.Claim, used fairqueue.Estimate) {
	t.Helper()
	run, ok := start(q, c)
	if !ok {
		t.Fatalf("Start(%v): at its cap", c)
	}
	q.Learn(&run, used)
	q.Finish(&run, used.Input+used.Output)
}

func wantEstimate(t *testing.T, q *fairqueue.Queue, c fairqueue.Claim, want fairqueue.Estimate) {
	t.Helper()
	run, _ := start(q, c)
	defer q.Finish(&run, 0)
	if got := run.Estimate(); math.Abs(got.Input-want.Input)+math.Abs(got.Output-want.Output) > 1e-9 {
		t.Errorf("Start(%v): expected to cost %v, want %v", c, got, want)
	}
}

// The estimate of an account's next request is the mean of its last ones; that of an unknown account the mean of all.
func TestEstimatesAreLearned(t *testing.T) {
	q := fairqueue.New(learning())
	claim := func(account string, input, most float64) fairqueue.Claim {
		return fairqueue.Claim{Account: account, Cost: input, Output: most}
	}
	wantEstimate(t, q, claim("new", 10, 0), fairqueue.Estimate{Input: 10})
	keep, _ := start(q, claim("terse", 1, 0)) // so that its account is not forgotten
	costs(t, q, claim("terse", 100, 0), fairqueue.Estimate{Input: 50, Output: 4})
	costs(t, q, claim("terse", 100, 0), fairqueue.Estimate{Input: 50, Output: 8})
	wantEstimate(t, q, claim("terse", 10, 0), fairqueue.Estimate{Input: 5, Output: 6})
	wantEstimate(t, q, claim("terse", 10, 2), fairqueue.Estimate{Input: 5, Output: 2}) // the claim allows no more
	wantEstimate(t, q, claim("new", 10, 0), fairqueue.Estimate{Input: 5, Output: 6})
	verbose, _ := start(q, claim("verbose", 1, 0))
	for range 100 {
		costs(t, q, claim("verbose", 10, 0), fairqueue.Estimate{Input: math.NaN(), Output: 600})
	}
	wantEstimate(t, q, claim("terse", 10, 0), fairqueue.Estimate{Input: 5, Output: 6})
	wantEstimate(t, q, claim("verbose", 10, 0), fairqueue.Estimate{Input: 10, Output: 600}) // its inputs are not known
	q.Finish(&keep, -1)
	q.Finish(&verbose, -1)
}

// An account whose prompts are mostly in engines' caches uses less than it claims; its next request is expected to use less too, and that of
// another account, with prompts of the same size, is not.
func TestEstimatesFollowCachedPrompts(t *testing.T) {
	q := fairqueue.New(learning())
	prompt := func(account string, cost float64) fairqueue.Claim {
		return fairqueue.Claim{Account: account, Cost: cost}
	}
	for _, account := range []string{"cached", "fresh"} {
		keep, _ := start(q, prompt(account, 1))
		defer q.Finish(&keep, -1)
	}
	for range 40 {
		costs(t, q, prompt("cached", 1000), fairqueue.Estimate{Input: 190}) // nine of ten tokens, each at a tenth
		costs(t, q, prompt("fresh", 1000), fairqueue.Estimate{Input: 1000})
	}
	wantEstimate(t, q, prompt("cached", 500), fairqueue.Estimate{Input: 95})
	wantEstimate(t, q, prompt("fresh", 500), fairqueue.Estimate{Input: 500})
}

// The cost of one output is learned, so that a request for many is expected to cost as much more.
func TestEstimatesCountOutputs(t *testing.T) {
	q := fairqueue.New(learning())
	keep, _ := start(q, account("a"))
	defer q.Finish(&keep, -1)
	costs(t, q, fairqueue.Claim{Account: "a", Outputs: 50}, fairqueue.Estimate{Input: 1, Output: 100})
	costs(t, q, fairqueue.Claim{Account: "a"}, fairqueue.Estimate{Input: 1, Output: 4})
	wantEstimate(t, q, account("a"), fairqueue.Estimate{Input: 1, Output: 3})
	wantEstimate(t, q, fairqueue.Claim{Account: "a", Outputs: 100}, fairqueue.Estimate{Input: 1, Output: 300})
	wantEstimate(t, q, fairqueue.Claim{Account: "a", Outputs: 100, Output: 250}, fairqueue.Estimate{Input: 1, Output: 250})
}

// Estimates follow an account whose requests change within a few dozen requests.
func TestEstimatesFollowAnAccount(t *testing.T) {
	q := fairqueue.New(learning())
	keep, _ := start(q, account("a"))
	defer q.Finish(&keep, -1)
	for range 1000 {
		costs(t, q, account("a"), fairqueue.Estimate{Input: 1, Output: 1000})
	}
	for range 100 {
		costs(t, q, account("a"), fairqueue.Estimate{Input: 1, Output: 10})
	}
	run, _ := start(q, account("a"))
	defer q.Finish(&run, -1)
	if got := run.Estimate().Output; got < 10 || got > 60 {
		t.Errorf("after a hundred that cost 10, expected to cost %v", got)
	}
}

// Refunds of high estimates put an account below V. A newcomer does not wait until it has caught up: that would be a burst of
// as many grants as the account had running.
func TestNoBurstAfterRefunds(t *testing.T) {
	q := fairqueue.New(roomy)
	costly := fairqueue.Claim{Account: "costly", Cost: 1000}
	for range 40 {
		push(t, q, costly, 0)
	}
	var running []fairqueue.Running
	for range 16 {
		running = append(running, wantNext(t, q, 0, "costly"))
	}
	for _, run := range running {
		q.Finish(&run, 10)
	}
	push(t, q, account("quiet"), 1)
	wantNext(t, q, 1, "quiet")
	wantNext(t, q, 1, "costly")
}

// An account that comes now and then, and has had no more than its share, does not wait for one that catches up.
func TestRefundDoesNotDelayAnAccountWithinItsShare(t *testing.T) {
	q := fairqueue.New(roomy)
	dear, _ := start(q, fairqueue.Claim{Account: "dear", Cost: 100})
	quiet, _ := start(q, fairqueue.Claim{Account: "quiet", Cost: 10})
	q.Finish(&quiet, -1)
	for i := range int64(3) {
		push(t, q, fairqueue.Claim{Account: "dear", Cost: 1}, i)
		push(t, q, fairqueue.Claim{Account: "steady", Cost: 50}, i)
	}
	wantNext(t, q, 10, "steady")
	wantNext(t, q, 10, "steady") // V is 50
	q.Finish(&dear, 1)
	push(t, q, fairqueue.Claim{Account: "quiet", Cost: 100}, 5)
	push(t, q, fairqueue.Claim{Account: "quiet", Cost: 1}, 5)
	wantNext(t, q, 10, "quiet") // it is at 10, and the refunded account at 1
	for range 3 {
		wantNext(t, q, 10, "dear")
	}
}

// A refund just before a slot is free does not overtake a fresh account that waits for it.
func TestRefundDoesNotOvertakeAFreshAccount(t *testing.T) {
	q := fairqueue.New(roomy)
	costly := fairqueue.Claim{Account: "costly", Cost: 1000}
	for range 40 {
		push(t, q, costly, 0)
	}
	first, second := wantNext(t, q, 0, "costly"), wantNext(t, q, 0, "costly")
	push(t, q, account("quiet"), 1)
	push(t, q, account("later"), 2)
	q.Finish(&first, 10)
	wantNext(t, q, 2, "quiet")
	q.Finish(&second, 10)
	wantNext(t, q, 2, "later")
	wantNext(t, q, 2, "costly")
}

// Accounts that come one after the other, each for one item, do not starve an account that always waits.
func TestNewcomersDoNotStarveABacklog(t *testing.T) {
	q := fairqueue.New(roomy)
	var running []fairqueue.Running
	steady, others := 0, 0
	for i := range 4000 {
		for q.LenOf("steady") < 2 {
			push(t, q, account("steady"), int64(i))
		}
		for k := range 40 { // each has one waiting at any time
			if name := fmt.Sprint(k); q.LenOf(name) == 0 {
				push(t, q, account(name), int64(i))
			}
		}
		if len(running) == 16 {
			q.Finish(&running[0], -1)
			running = running[1:]
		}
		it, run := q.Next(time.Unix(int64(i), 0), nil)
		running = append(running, run)
		if it.Account == "steady" {
			steady++
		} else {
			others++
		}
	}
	if steady < 4000/41-5 || steady > 4000/41+5 {
		t.Errorf("%d of 4000 turns for one of 41 accounts, %d for the others", steady, others)
	}
}

// A correction while the account has nothing waiting counts when it comes back.
func TestCorrectionWhileNothingWaits(t *testing.T) {
	q := fairqueue.New(roomy)
	keep, _ := start(q, account("steady")) // the band stays busy
	spent, _ := start(q, account("spender"))
	cheap, _ := start(q, fairqueue.Claim{Account: "thrifty", Cost: 100})
	q.Finish(&spent, 5)
	q.Finish(&cheap, 1)
	if err := q.Check(); err != nil {
		t.Error(err)
	}
	push(t, q, account("spender"), 0)
	push(t, q, account("thrifty"), 1)
	for range 5 {
		push(t, q, account("steady"), 2)
	}
	for _, want := range []string{"thrifty", "steady", "steady", "steady", "steady", "spender"} {
		wantNext(t, q, 3, want)
	}
	q.Finish(&keep, -1)
}

// Charge counts before the request ends.
func TestCharge(t *testing.T) {
	q := fairqueue.New(roomy)
	run, _ := start(q, account("long"))
	for range 3 {
		push(t, q, account("long"), 0)
		push(t, q, account("short"), 1)
	}
	q.Charge(&run, 0.5) // it was charged more before
	q.Charge(&run, math.NaN())
	wantNext(t, q, 2, "short")
	q.Charge(&run, 3)
	wantNext(t, q, 2, "short")
	wantNext(t, q, 2, "short")
	wantNext(t, q, 2, "long")
	q.Finish(&run, 3)
	wantNext(t, q, 2, "long")
	if err := q.Check(); err != nil {
		t.Error(err)
	}
}

// After a change of unit, an account is not a thousand requests ahead for the thousand tokens that it has used.
func TestChangeOfUnit(t *testing.T) {
	q := fairqueue.New(learning())
	keep, _ := start(q, account("other"))
	costs(t, q, account("spender"), fairqueue.Estimate{Input: 500, Output: 500})
	for range 3 {
		push(t, q, account("spender"), 0)
		push(t, q, account("other"), 1)
	}
	q.Configure(roomy)
	if err := q.Check(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"spender", "other", "spender", "other"} {
		wantNext(t, q, 2, want)
	}
	q.Finish(&keep, -1)
}

// The oldest item of an account at its cap holds back no other account, and is served when the account is below its cap.
func TestOldestItemAtTheCap(t *testing.T) {
	q := fairqueue.New(roomy)
	capped := fairqueue.Claim{Account: "capped", Concurrent: 1}
	run, _ := start(q, capped)
	push(t, q, capped, 0)
	for range 3 {
		push(t, q, account("other"), 5)
	}
	wantNext(t, q, 100, "other")
	wantNext(t, q, 100, "other")
	q.Finish(&run, -1)
	wantNext(t, q, 100, "capped")
	wantNext(t, q, 100, "other")
}

// Under FIFO some accounts are served more than others. After a change to Fair, none is ahead for that.
func TestChangeOfDiscipline(t *testing.T) {
	fifo := roomy
	fifo.Discipline = fairqueue.FIFO
	q := fairqueue.New(fifo)
	for range 1000 {
		push(t, q, account("much"), 0)
	}
	for range 10 {
		push(t, q, account("little"), 1)
	}
	for range 900 {
		wantNext(t, q, 2, "much")
	}
	q.Configure(roomy)
	if err := q.Check(); err != nil {
		t.Error(err)
	}
	for range 5 {
		wantNext(t, q, 2, "much")
		wantNext(t, q, 2, "little")
	}
}

// An account none of whose items is accepted holds no other account back, and gets no claim by it.
func TestAccountThatIsPassedOver(t *testing.T) {
	q := fairqueue.New(roomy)
	picky := push(t, q, account("picky"), 0)
	others := func(it *fairqueue.Item) bool { return it != picky }
	for range 1000 {
		push(t, q, account("steady"), 1)
	}
	for range 500 {
		if it, _ := q.Next(time.Unix(2, 0), others); it.Account != "steady" {
			t.Fatalf("served %v", it)
		}
	}
	for range 20 {
		push(t, q, account("late"), 2)
	}
	counts := map[string]int{}
	for range 20 {
		it, _ := q.Next(time.Unix(2, 0), others)
		counts[it.Account]++
	}
	if counts["late"] > 11 {
		t.Errorf("of 20 turns %v, want 10 each, or 11 and 9", counts)
	}
}

// A charge is refunded by the weight by which it was made.
func TestRefundIsByTheWeightOfTheCharge(t *testing.T) {
	q := fairqueue.New(roomy)
	keep, _ := start(q, account("other"))
	for range 50 {
		push(t, q, account("other"), 0)
	}
	c := fairqueue.Claim{Account: "changing", Cost: 1000}
	push(t, q, c, 0)
	push(t, q, c, 0)
	run := wantNext(t, q, 1, "changing")
	c.Weight = 1000
	q.UpdateAccount(c)
	q.Finish(&run, 1)
	wantNext(t, q, 1, "other")
	wantNext(t, q, 1, "changing") // and not after a thousand others
	q.Finish(&keep, -1)
}
