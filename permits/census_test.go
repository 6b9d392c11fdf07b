package permits_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

// A census says who holds and who waits, and since when; Snapshot and it agree.
func TestCensus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.MaxShare, c.MaxWait, c.Limit = 0.5, time.Minute, 6
		p := newPool(t, c, fleet(2, 2)...)
		warm(t, p, time.Second, 16)
		ctx, leave := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		wait := func(account string, band permits.Band, concurrent int) {
			r := patient(account)
			r.Band, r.Concurrent, r.Bytes, r.Weight = band, concurrent, 100, 2
			waiting.Go(func() { _, _ = p.Acquire(ctx, r) })
			synctest.Wait()
			time.Sleep(time.Second)
		}
		var held []permits.Permit
		for _, account := range []string{"a", "a", "b", "c"} {
			held = append(held, take(t, p, permits.Request{Account: account, Band: permits.Interactive, Weight: 2}))
		}
		wait("a", permits.Interactive, 0)
		wait("b", permits.Batch, 1)
		wait("d", permits.Standard, 0)
		wait("a", permits.Batch, 0)
		refuse(t, p, permits.Request{Account: "e", MaxExpected: -1}, permits.Busy)
		refuse(t, p, permits.Request{Account: "b", MaxExpected: -1}, permits.Busy)

		census := p.Census(2)
		if snapshot := p.Snapshot(); !reflect.DeepEqual(census.Snapshot, snapshot) {
			t.Errorf("the snapshot is %+v, its own is %+v", snapshot, census.Snapshot)
		}
		if census.Held != 4 || census.Queued != 4 || census.Oldest != 4*time.Second || census.Bytes != 400 || census.Told != 2 ||
			census.MeanHeld != time.Second || !census.Granting || census.Config != c || census.Others != 2 {
			t.Errorf("got %+v", census)
		}
		for i, want := range []permits.BandCensus{
			{Band: permits.Interactive, Queued: 1, Held: 4, Accounts: 1, Oldest: 4 * time.Second},
			{Band: permits.Standard, Queued: 1, Accounts: 1, Oldest: 2 * time.Second},
			{Band: permits.Batch, Queued: 2, Accounts: 2, Oldest: 3 * time.Second},
		} {
			got := census.Bands[i]
			if got.V = 0; got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		a, b := census.Accounts[0], census.Accounts[1]
		if ahead := a.Bands[0].Ahead; math.Abs(ahead-0.5) > 1e-9 { // two of cost 1, at weight 2; the first is the others' turn, too
			t.Errorf("a is ahead by %v", ahead)
		}
		a.Bands[0].Ahead = 0
		want := permits.AccountCensus{
			Account: "a", Weight: 2, Held: 2, Queued: 2, Most: 2, AtLimit: true, Bytes: 200, Oldest: 4 * time.Second,
			Bands: []permits.FlowCensus{{Band: permits.Interactive, Held: 2, Queued: 1}, {Band: permits.Batch, Queued: 1}},
		}
		if !reflect.DeepEqual(a, want) {
			t.Errorf("got  %+v\nwant %+v", a, want)
		}
		if b.Account != "b" || b.Most != 1 || !b.AtLimit || b.Told != 1 || b.Oldest != 3*time.Second {
			t.Errorf("got %+v", b)
		}
		time.Sleep(40 * time.Second)
		if census := p.Census(0); census.Told != 0 || len(census.Accounts) != 0 || census.Others != 4 {
			t.Errorf("after 40s, naming nobody: %+v", census)
		}
		p.Drain()
		waiting.Wait()
		leave()
		if census := p.Census(9); census.Granting || census.Queued != 0 || census.Oldest != 0 || len(census.Accounts) != 3 {
			t.Errorf("after the drain: %+v", census)
		}
		for _, permit := range held {
			permit.Release()
		}
	})
}

// What a slot is worth is what requests use per second, once there were enough of them; held up or not.
func TestCensusOfWorth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, byTokens(), fleet(1, 1)...)
		f := func(want, used float64, requests int, held, heldUp time.Duration) {
			t.Helper()
			for range requests {
				permit := take(t, p, permits.Request{Account: "a"})
				time.Sleep(held)
				permit.BlockedOnClient(heldUp)
				permit.ReleaseUsed(permits.Used{Input: 1, Output: used - 1})
			}
			if got := p.Census(0).Worth; math.Abs(got-want) > 0.01 {
				t.Errorf("a slot is worth %.3f a second, want %v", got, want)
			}
		}
		f(0, 20, 15, 2*time.Second, 0)
		f(10, 20, 1, 2*time.Second, 0)
		f(10, 20, 100, 20*time.Second, 18*time.Second)    // as before, but for its client
		f(10, 20, 100, 20*time.Second, 20*time.Second)    // the engine made it all while it was held up
		f(5, 20, 500, 20*time.Second, 16*time.Second)     // slower than before, whatever its client does
		f(20, 20, 500, time.Second, 500*time.Millisecond) // and quicker
		f(1, 20, 500, 20*time.Second, 0)                  // nobody has held it up
	})
}

// With so many accounts that a census pauses, it says the same, and others get their permits meanwhile.
func TestCensusOfManyAccounts(t *testing.T) {
	const many = 1000
	p := newPool(t, config(), fleet(1, many+1)...)
	var held []permits.Permit
	for i := range many {
		held = append(held, take(t, p, permits.Request{Account: fmt.Sprint("a", i)}))
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 200 {
			if permit, err := p.Acquire(context.Background(), permits.Request{Account: "a1"}); err == nil {
				permit.Release()
			}
		}
	}()
	for range 20 {
		if c := p.Census(10); len(c.Accounts) != 10 || c.Others != many-10 || c.Held < many {
			t.Errorf("%d held by %d and %d others", c.Held, len(c.Accounts), c.Others)
		}
	}
	<-ended
	for _, permit := range held {
		permit.Release()
	}
}
