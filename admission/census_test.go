package admission

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What /debug/pools says, as it stands in JSON: these names are what people and their scripts read.
func TestCensus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, p := newDocuments(t), &probes{}
		d := runManager(t, p)
		p.set("two", errors.New("connection refused"))
		d.Apply(docs.table("key: pools/a\nqueue: {limit: 8, per_account: 3, bytes: 1KiB, max_wait: 5s}\npermits: {max_share: 0.5}\n---\n" +
			endpoints("a", 2, "one") + "---\n" + endpoints("a", 1, "two")))
		time.Sleep(time.Minute)
		a := mustPool(t, d, "a")
		g, err := take(a)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Release()
		ctx, leave := context.WithCancel(t.Context())
		go a.Acquire(ctx, Request{Account: "acme", Bytes: 10, MaxWait: time.Hour, MaxExpected: -1})
		synctest.Wait()
		time.Sleep(1500 * time.Millisecond)
		teach(a, minSamples, chat, 50*time.Millisecond)
		teach(a, minSamples, Work{Model: "m", Path: chat.Path, Input: 400}, time.Second)
		teach(a, minSamples-1, Work{Model: "n", Path: chat.Path, Input: 400}, time.Second)
		census := a.Census(3)
		if since := census.Endpoints[1].StateSeconds; since == nil || *since < 30 || *since > 62 {
			t.Errorf("down for %v", since)
		}
		census.Endpoints[1].StateSeconds = nil
		got, err := json.MarshalIndent(census, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if flat := strings.Join(strings.Fields(string(got)), " "); flat != wantCensus {
			t.Errorf("got  %s\nwant %s", flat, wantCensus)
		}
		if named := a.Census(0); len(named.Accounts) != 0 || named.OtherAccounts != 1 {
			t.Errorf("asked for nobody, it names %v and %d others", named.Accounts, named.OtherAccounts)
		}
		leave()
		synctest.Wait()
	})
}

const wantCensus = `{ "pool": "a", "limit": 2, "held": 1, "free": 1, "queued": 1, "draining": false, ` +
	`"expected_wait_ms": 0, "rate_per_second": 0, "full_seconds": 0, "granted": 1, "released": 0, "refused": {}, "endpoints": [ ` +
	`{ "id": "one", "url": "http://one:8000", "state": "up", "concurrency": 2, "held": 1, "taken": 0, "full": false, ` +
	`"state_seconds": null }, ` +
	`{ "id": "two", "url": "http://two:8000", "state": "down", "concurrency": 1, "held": 0, "taken": 0, "full": false, ` +
	`"state_seconds": null, "why": "connection refused" } ], ` +
	`"granting": true, "mean_held_ms": null, "slot_worth": null, "told_to_come_back": 0, ` +
	`"soonest": [ { "model": "m", "path": "/v1/chat/completions", "streamed": false, "ms": 1000 }, ` +
	`{ "model": "m", "path": "/v1/chat/completions", "streamed": true, "ms": 50 } ], ` +
	`"queue": { "discipline": "fair", "cost": "tokens", "limit": 8, "per_account": 3, "bytes": 10, "bytes_limit": 1024, ` +
	`"max_wait_ms": 5000, "oldest_wait_ms": 1500 }, "bands": [ ` +
	`{ "band": "interactive", "held": 1, "queued": 1, "accounts": 1, "oldest_wait_ms": 1500, "virtual_time": 0 }, ` +
	`{ "band": "standard", "held": 0, "queued": 0, "accounts": 0, "oldest_wait_ms": null, "virtual_time": 0 }, ` +
	`{ "band": "batch", "held": 0, "queued": 0, "accounts": 0, "oldest_wait_ms": null, "virtual_time": 0 } ], "accounts": [ ` +
	`{ "account": "acme", "weight": 1, "held": 1, "queued": 1, "cap": 1, "at_limit": true, "bytes": 10, "told_to_come_back": 0, ` +
	`"mean_output_cost": null, "oldest_wait_ms": 1500, "bands": [ { "band": "interactive", "held": 1, "queued": 1, "ahead": 1 } ] } ], "other_accounts": 0 }`
