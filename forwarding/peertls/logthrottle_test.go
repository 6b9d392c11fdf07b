package peertls

import (
	"strings"
	"testing"
	"time"
)

// One address cannot keep what is told of another from being told.
func TestSeldom(t *testing.T) {
	var s logThrottle
	now := time.Now()
	told := 0
	for n := range 1000 {
		if s.allow("10.0.0.1", strings.Repeat("x", n), now) {
			told++
		}
	}
	if told != maxPerAddress || !s.allow("10.0.0.2", "x", now) || s.allow("10.0.0.2", "x", now) || !s.allow("10.0.0.2", "x", now.Add(time.Minute)) {
		t.Errorf("%d lines of one address, want %d, and each of another once a minute", told, maxPerAddress)
	}
}
