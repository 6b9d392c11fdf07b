package fairqueue_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/fairqueue"
)

func small(limit int) fairqueue.Config {
	return fairqueue.Config{Limit: limit, PerAccount: 1 << 20, Bytes: 1 << 20}
}

// put pushes and returns the result: "in", "full", "account full", or the accounts of the victims.
func put(q *fairqueue.Queue, c fairqueue.Claim, bytes int64) string {
	victims, err := q.Push(&fairqueue.Item{Claim: c, Bytes: bytes, Arrived: time.Unix(0, 0)})
	switch {
	case err == fairqueue.ErrFull:
		return "full"
	case err == fairqueue.ErrAccountFull:
		return "account full"
	case len(victims) == 0:
		return "in"
	}
	var names []string
	for _, v := range victims {
		names = append(names, v.Account)
	}
	return strings.Join(names, " ")
}

func wantPut(t *testing.T, q *fairqueue.Queue, c fairqueue.Claim, bytes int64, want string) {
	t.Helper()
	if got := put(q, c, bytes); got != want {
		t.Errorf("Push(%v, %d bytes): %s, want %s", c, bytes, got, want)
	}
	if err := q.Check(); err != nil {
		t.Error(err)
	}
}

func TestFlooderIsEvicted(t *testing.T) {
	q := fairqueue.New(small(8))
	for range 8 {
		wantPut(t, q, account("flooder"), 0, "in")
	}
	wantPut(t, q, account("flooder"), 0, "full")
	for range 3 {
		wantPut(t, q, account("other"), 0, "flooder")
	}
	wantPut(t, q, account("other"), 0, "flooder") // 5 against what would be 4
	wantPut(t, q, account("other"), 0, "full")    // 4 against what would be 5
	wantPut(t, q, account("flooder"), 0, "full")
	wantPut(t, q, account("third"), 0, "other") // of 4 and 4, the newest item
}

// An account within its share of the room keeps it, whatever a flooder pushes.
func TestFlooderEvictsNoOther(t *testing.T) {
	q := fairqueue.New(small(8))
	for range 4 {
		wantPut(t, q, account("within"), 0, "in")
	}
	for i := range 1000 {
		if got := put(q, account("flooder"), int64(i%3)); got != "in" && got != "full" {
			t.Fatalf("a flooder's item took the place of %s", got)
		}
	}
	if n := q.LenOf("within"); n != 4 {
		t.Errorf("%d of 4 left", n)
	}
}

func TestRoomIsByWeight(t *testing.T) {
	q := fairqueue.New(small(8))
	heavy, light := fairqueue.Claim{Account: "heavy", Weight: 3}, fairqueue.Claim{Account: "light", Weight: 1}
	for range 8 {
		wantPut(t, q, light, 0, "in")
	}
	for range 5 {
		wantPut(t, q, heavy, 0, "light")
	}
	wantPut(t, q, heavy, 0, "light") // 3/1 against 6/3
	wantPut(t, q, heavy, 0, "full")  // 2/1 against 7/3
}

func TestHigherBandsKeepTheirRoom(t *testing.T) {
	q := fairqueue.New(small(4))
	in := func(name string, b fairqueue.Band) fairqueue.Claim { return fairqueue.Claim{Account: name, Band: b} }
	for range 3 {
		wantPut(t, q, in("high", fairqueue.Interactive), 0, "in")
	}
	wantPut(t, q, in("low", fairqueue.Batch), 0, "in")
	wantPut(t, q, in("new", fairqueue.Batch), 0, "full")       // no account in that band holds more
	wantPut(t, q, in("new", fairqueue.Standard), 0, "full")    // nor below
	wantPut(t, q, in("new", fairqueue.Interactive), 0, "high") // the one that holds the most
}

func TestRoomInBytes(t *testing.T) {
	config := small(100)
	config.Bytes = 1000
	q := fairqueue.New(config)
	for range 10 {
		wantPut(t, q, account("flooder"), 100, "in")
	}
	wantPut(t, q, account("flooder"), 1, "full")
	wantPut(t, q, account("other"), 250, "flooder flooder flooder")
	wantPut(t, q, account("other"), 1001, "full")
	wantPut(t, q, account("third"), 700, "full") // the others would hold less than it: none is evicted
	if q.Bytes() != 950 || q.Len() != 8 {
		t.Errorf("%d bytes in %d items, want 950 in 8", q.Bytes(), q.Len())
	}
}

// With one item of each of as many accounts as there is room for, a newcomer evicts none; it gets the next room that is left.
func TestRoomForOneEach(t *testing.T) {
	q := fairqueue.New(small(256))
	for i := range 256 {
		wantPut(t, q, account(fmt.Sprint(i)), 0, "in")
	}
	wantPut(t, q, account("newcomer"), 0, "full")
	wantNext(t, q, 1, "0")
	wantPut(t, q, account("newcomer"), 0, "in")
	wantPut(t, q, account("1"), 0, "full") // it has one waiting
}

// A newcomer of 16 MiB evicts no account that holds less, but items of 16 MiB are evicted for small ones.
func TestLargeNewcomer(t *testing.T) {
	const mib = 1 << 20
	config := small(1000)
	config.Bytes = 64 * mib
	q := fairqueue.New(config)
	for i := range 64 {
		wantPut(t, q, account(fmt.Sprint(i)), mib, "in")
	}
	wantPut(t, q, account("large"), 16*mib, "full")
	q = fairqueue.New(config)
	for range 4 {
		wantPut(t, q, account("large"), 16*mib, "in")
	}
	wantPut(t, q, account("small"), mib, "large")
	for range 15 {
		wantPut(t, q, account("small"), mib, "in")
	}
	wantPut(t, q, account("large"), 16*mib, "full")
}

// Lowered bounds evict nothing: a newcomer takes one place, or as many bytes as it has, and no more.
func TestLoweredBounds(t *testing.T) {
	q := fairqueue.New(small(10))
	for range 10 {
		wantPut(t, q, account("a"), 100, "in")
	}
	config := small(2)
	q.Configure(config)
	wantPut(t, q, account("a"), 100, "full")
	wantPut(t, q, account("b"), 100, "a")
	config.Limit, config.Bytes = 10, 300
	q.Configure(config)
	wantPut(t, q, account("b"), 150, "a a")
	if q.Len() != 9 || q.LenOf("a") != 7 {
		t.Errorf("%d wait, %d of them of a; want 9 and 7", q.Len(), q.LenOf("a"))
	}
	config.Limit = 0
	q.Configure(config)
	wantPut(t, q, account("c"), 0, "full")
}

func TestBoundOfAnAccount(t *testing.T) {
	config := small(100)
	config.PerAccount = 2
	q := fairqueue.New(config)
	wantPut(t, q, account("a"), 0, "in")
	wantPut(t, q, fairqueue.Claim{Account: "a", Band: fairqueue.Batch}, 0, "in")
	wantPut(t, q, account("a"), 0, "account full")
	wantPut(t, q, account("b"), 0, "in")
}

func TestBoundsOfZeroAdmitNothing(t *testing.T) {
	for _, c := range []fairqueue.Config{
		{}, {Limit: 1, Bytes: 1}, {PerAccount: 1, Bytes: 1}, {Limit: 1, PerAccount: 1},
	} {
		q := fairqueue.New(c)
		if got := put(q, account("a"), 1); got == "in" {
			t.Errorf("with %+v something went in", c)
		}
	}
}

// A request that rejoins is ahead of what came after it, and is admitted also to a full queue.
func TestRejoin(t *testing.T) {
	q := fairqueue.New(small(2))
	at := func(second int64) *fairqueue.Item {
		return &fairqueue.Item{Claim: account("a"), Arrived: time.Unix(second, 0), Value: second}
	}
	for _, second := range []int64{1, 2} {
		if _, err := q.Push(at(second)); err != nil {
			t.Fatal(err)
		}
	}
	first, _ := q.Next(time.Unix(3, 0), nil)
	second, _ := q.Next(time.Unix(3, 0), nil)
	for _, s := range []int64{3, 4} {
		if _, err := q.Push(at(s)); err != nil {
			t.Fatal(err)
		}
	}
	q.Rejoin(second)
	q.Rejoin(first)
	for want := int64(1); want <= 4; want++ {
		if it, _ := q.Next(time.Unix(5, 0), nil); it.Value != want {
			t.Errorf("got the one that arrived at %v, want %d", it.Value, want)
		}
	}
}

func TestPushTwicePanics(t *testing.T) {
	q := fairqueue.New(roomy)
	it := push(t, q, account("a"), 0)
	for name, again := range map[string]func(){
		"Push":   func() { q.Push(it) },
		"Rejoin": func() { q.Rejoin(it) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of an item that is in: no panic", name)
				}
			}()
			again()
		}()
	}
}

// Accounts that have left are forgotten, but for a few hundred that are kept for their estimates.
func TestAccountsAreForgotten(t *testing.T) {
	const kept = 512
	want := func(q *fairqueue.Queue, most int, when string) {
		t.Helper()
		if n := q.Accounts(); n > most {
			t.Errorf("%s: %d accounts are kept, want %d at most", when, n, most)
		}
		if err := q.Check(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	q := fairqueue.New(roomy)
	for i := range 100_000 {
		run, _ := start(q, account(fmt.Sprint(i)))
		q.Finish(&run, -1)
	}
	want(q, kept, "one after the other")

	var runs []fairqueue.Running
	for i := range 10_000 {
		run, _ := start(q, account(fmt.Sprint(i)))
		runs = append(runs, run)
	}
	for i, run := range runs {
		q.Finish(&run, -1)
		if i == len(runs)-2 {
			want(q, len(runs)+kept, "all but one have left")
		}
	}
	want(q, kept, "all have left")

	steady, _ := start(q, account("steady"))
	for i := range 10_000 {
		push(t, q, account(fmt.Sprint(i)), int64(i))
	}
	for range 10_000 {
		_, run := q.Next(time.Unix(0, 0), nil)
		q.Finish(&run, -1)
	}
	for range 10_000/4 + 2 { // until then they are ahead
		run, _ := start(q, account("lively"))
		q.Finish(&run, -1)
	}
	want(q, kept, "two go on")
	q.Finish(&steady, -1)
}

// However accounts come and go, those with something waiting or running are kept, and the others do not accumulate.
func TestManyAccountsComeAndGo(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	q := fairqueue.New(roomy)
	var waiting []*fairqueue.Item
	var running []fairqueue.Running
	for i := range 60_000 {
		batch := 1 + 3000*(i/10_000%2) // many, then one
		claim := fairqueue.Claim{Account: fmt.Sprint(r.IntN(batch)), Weight: 1, Cost: 1 + 9*r.Float64()}
		switch n := r.IntN(6); {
		case n < 2:
			waiting = append(waiting, push(t, q, claim, int64(i)))
		case n == 2 && len(waiting) > 0:
			at := r.IntN(len(waiting))
			q.Remove(waiting[at]) // without effect if it was served
			waiting = slices.Delete(waiting, at, at+1)
		case n == 3:
			if it, run := q.Next(time.Unix(0, 0), nil); it != nil {
				running = append(running, run)
			}
		case n == 4:
			if run, ok := start(q, claim); ok {
				running = append(running, run)
			}
		case len(running) > 0:
			at := r.IntN(len(running))
			q.Finish(&running[at], 10*r.Float64())
			running = slices.Delete(running, at, at+1)
		}
		if i%1000 == 0 {
			if err := q.Check(); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
	}
	for q.Len() > 0 {
		_, run := q.Next(time.Unix(0, 0), nil)
		running = append(running, run)
	}
	for _, run := range running {
		q.Finish(&run, -1)
	}
	if err := q.Check(); err != nil || q.Accounts() > 512 {
		t.Errorf("%d accounts are kept of those that have left; %v", q.Accounts(), err)
	}
}
