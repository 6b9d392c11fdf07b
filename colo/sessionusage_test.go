package colo

import (
	"fmt"
	"testing"
	"time"

	"colonnade/forwarding/hop"
)

// The usage of a session is given once, to the entry through which it went, and the number of those that are kept is bounded.
func TestSessionUsages(t *testing.T) {
	t.Parallel()
	var u sessionUsages
	now := time.Now()
	put := func(id string, at time.Time) {
		u.put(id, sessionUsage{SessionUsage: hop.SessionUsage{Prompt: 7}, source: "edge", at: at})
	}
	f := func(id, source string, want bool) {
		t.Helper()
		if used, found := u.take(id, source); found != want || found && used.Prompt != 7 {
			t.Errorf("%s for %s: %+v, %v", id, source, used, found)
		}
	}
	f("a", "edge", false)
	put("a", now)
	f("a", "other", false)
	f("a", "edge", true)
	f("a", "edge", false)
	for n := range maxSessionUsages + 5 {
		put(fmt.Sprint(n), now)
	}
	f(fmt.Sprint(maxSessionUsages+4), "edge", false)
	put("late", now.Add(2*sessionUsageKept))
	f("late", "edge", true)
	if n := len(u.ended); n != 0 {
		t.Errorf("%d are kept that no entry has asked for", n)
	}
}
