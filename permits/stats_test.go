package permits_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

// wantJSON compares what got is in JSON.
func wantJSON(t *testing.T, got any, want string) {
	t.Helper()
	if text, err := json.Marshal(got); err != nil || string(text) != want {
		t.Errorf("got  %s, %v\nwant %s", text, err, want)
	}
}

// DetailedStats says which accounts hold and wait, and since when; Stats is the rest of it.
func TestStats(t *testing.T) {
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
			waiting.Go(func() { _, _ = acquire(p, ctx, r) })
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

		stats := p.DetailedStats(2)
		plain := p.Stats()
		detailed := stats
		detailed.Accounts, detailed.OtherAccounts, detailed.Queue.OldestMillis = plain.Accounts, plain.OtherAccounts, nil
		detailed.Bands = slices.Clone(stats.Bands)
		for i := range detailed.Bands {
			detailed.Bands[i].OldestMillis = nil
		}
		if !reflect.DeepEqual(detailed, plain) || len(plain.Accounts) != 0 || plain.OtherAccounts != 0 {
			t.Errorf("without accounts and ages %+v,\nwant %+v", plain, detailed)
		}
		if stats.Held != 4 || stats.Queued != 4 || stats.PendingRetries != 2 || !stats.Granting || stats.OtherAccounts != 2 {
			t.Errorf("got %+v", stats)
		}
		wantJSON(t, stats.MeanHeldMillis, `1000`)
		wantJSON(t, stats.Queue, `{"discipline":"fair","cost":"requests","limit":6,"per_account":64,"bytes":400,"bytes_limit":67108864,`+
			`"max_wait_ms":60000,"oldest_wait_ms":4000}`)
		for i := range stats.Bands {
			stats.Bands[i].VirtualTime = 0
		}
		wantJSON(t, stats.Bands, `[{"band":"interactive","held":4,"queued":1,"accounts":1,"oldest_wait_ms":4000,"virtual_time":0},`+
			`{"band":"standard","held":0,"queued":1,"accounts":1,"oldest_wait_ms":2000,"virtual_time":0},`+
			`{"band":"batch","held":0,"queued":2,"accounts":2,"oldest_wait_ms":3000,"virtual_time":0}]`)
		a, b := stats.Accounts[0], stats.Accounts[1]
		// Two of cost 1, at weight 2; the first would have been granted to the others as well.
		wantJSON(t, a, `{"account":"a","weight":2,"held":2,"queued":2,"cap":2,"at_limit":true,"bytes":200,"pending_retries":0,`+
			`"mean_output_cost":null,"oldest_wait_ms":4000,"bands":[{"band":"interactive","held":2,"queued":1,"vtime_lead":0.5},`+
			`{"band":"batch","held":0,"queued":1,"vtime_lead":0}]}`)
		if b.Account != "b" || *b.Cap != 1 || !b.AtLimit || b.PendingRetries != 1 || *b.OldestMillis != 3000 {
			t.Errorf("got %+v", b)
		}
		time.Sleep(40 * time.Second)
		if s := p.DetailedStats(0); s.PendingRetries != 0 || len(s.Accounts) != 0 || s.OtherAccounts != 4 {
			t.Errorf("after 40s, with no account named: %+v", s)
		}
		p.Drain()
		waiting.Wait()
		leave()
		if s := p.DetailedStats(9); s.Granting || s.Queued != 0 || s.Queue.OldestMillis != nil || len(s.Accounts) != 3 {
			t.Errorf("after the drain: %+v", s)
		}
		for _, permit := range held {
			permit.Release()
		}
	})
}

// The cost of a slot is what requests use per second, once there were enough of them, whether their clients block them or
// not.
func TestStatsOfSlotCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, byTokens(), fleet(1, 1)...)
		f := func(want, used float64, requests int, held, blocked time.Duration) {
			t.Helper()
			for range requests {
				permit := take(t, p, permits.Request{Account: "a"})
				time.Sleep(held)
				permit.BlockedOnClient(blocked)
				permit.ReleaseUsed(permits.Used{Input: 1, Output: used - 1})
			}
			got := 0.0
			if cost := p.Stats().CostPerSlotSecond; cost != nil {
				got = *cost
			}
			if math.Abs(got-want) > 0.01 {
				t.Errorf("a slot costs %.3f a second, want %v", got, want)
			}
		}
		f(0, 20, 15, 2*time.Second, 0)
		f(10, 20, 1, 2*time.Second, 0)
		f(10, 20, 100, 20*time.Second, 18*time.Second)    // as before, but for the client
		f(10, 20, 100, 20*time.Second, 20*time.Second)    // all of it was generated while the client blocked
		f(5, 20, 500, 20*time.Second, 16*time.Second)     // slower than before, whatever the client does
		f(20, 20, 500, time.Second, 500*time.Millisecond) // and quicker
		f(1, 20, 500, 20*time.Second, 0)                  // not blocked at all
	})
}

// With so many accounts that the mutex is released in between, the result is the same, and permits are granted meanwhile.
func TestStatsOfManyAccounts(t *testing.T) {
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
			if permit, err := acquire(p, context.Background(), permits.Request{Account: "a1"}); err == nil {
				permit.Release()
			}
		}
	}()
	for range 20 {
		if c := p.DetailedStats(10); len(c.Accounts) != 10 || c.OtherAccounts != many-10 || c.Held < many {
			t.Errorf("%d held by %d and %d others", c.Held, len(c.Accounts), c.OtherAccounts)
		}
	}
	<-ended
	for _, permit := range held {
		permit.Release()
	}
}
