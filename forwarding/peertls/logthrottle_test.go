package peertls

import (
	"strings"
	"testing"
	"time"
)

// Lines about one address are bounded and do not keep lines about another one from the log.
func TestLogThrottle(t *testing.T) {
	var l logThrottle
	now := time.Now()
	allowed := 0
	for n := range 1000 {
		if l.allow("10.0.0.1", strings.Repeat("x", n), now) {
			allowed++
		}
	}
	if allowed != maxPerAddress {
		t.Errorf("%d lines about one address, want %d", allowed, maxPerAddress)
	}
	if !l.allow("10.0.0.2", "x", now) || l.allow("10.0.0.2", "x", now) || !l.allow("10.0.0.2", "x", now.Add(logPeriod)) {
		t.Error("a line about another address is not allowed once in a period")
	}
}
