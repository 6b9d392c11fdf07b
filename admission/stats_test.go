package admission_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/admission"
	"colonnade/permits"
)

// The names on /debug/pools are read by people and their scripts: a change of testdata/stats.json is a change for them.
func TestStatsInJSON(t *testing.T) {
	play(t, func(s *scenario) {
		s.setHealth("two", errRefused)
		s.put("key: pools/a\nqueue: {limit: 8, per_account: 3, bytes: 1KiB, max_wait: 5s}\npermits: {max_share: 0.5}\n---\n" +
			endpoints("a", 2, "one") + "---\n" + endpoints("a", 1, "two"))
		time.Sleep(time.Minute)
		a, g := s.pool("a"), s.take("a")
		defer g.Release()
		ctx, leave := context.WithCancel(s.Context())
		go acquire(a, ctx, permits.Request{Account: "acme", Bytes: 10, MaxWait: time.Hour, MaxExpected: -1})
		synctest.Wait()
		time.Sleep(1500 * time.Millisecond)
		observe(a, admission.MinSamples, chat, 50*time.Millisecond)
		observe(a, admission.MinSamples, admission.Work{Model: "m", Path: chat.Path, Input: 400}, time.Second)
		observe(a, admission.MinSamples-1, admission.Work{Model: "n", Path: chat.Path, Input: 400}, time.Second)
		stats := a.DetailedStats(3)
		if since := stats.Endpoints[1].StateSeconds; since == nil || *since < 30 || *since > 62 {
			t.Errorf("down for %v", since)
		}
		stats.Endpoints[1].StateSeconds = nil
		got, err := json.MarshalIndent(stats, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile("testdata/stats.json")
		if err != nil {
			t.Fatal(err)
		}
		if text := string(got) + "\n"; text != string(want) {
			t.Errorf("got %s\nwant %s", text, want)
		}
		if s := a.DetailedStats(0); len(s.Accounts) != 0 || s.OtherAccounts != 1 {
			t.Errorf("asked for no account, it names %v and %d others", s.Accounts, s.OtherAccounts)
		}
		leave()
		synctest.Wait()
	})
}
