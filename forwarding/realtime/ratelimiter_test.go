package realtime

import (
	"testing"
	"time"
)

func TestRateLimiter(t *testing.T) {
	var p rateLimiter
	now := time.Now()
	var waited time.Duration
	send := func(n int) {
		for range n {
			wait := p.take(now)
			now, waited = now.Add(wait), waited+wait
		}
	}
	send(messageBurst)
	if waited != 0 {
		t.Errorf("a burst was delayed by %v", waited)
	}
	send(5 * messageRate)
	if waited < 5*time.Second-minDelay || waited > 5*time.Second {
		t.Errorf("five seconds' worth more were delayed by %v", waited)
	}
	waited = 0
	for range 10_000 {
		now = now.Add(time.Second / messageRate)
		send(1)
	}
	if waited > minDelay {
		t.Errorf("messages at the rate were delayed by %v", waited)
	}
	now = now.Add(time.Hour)
	waited = 0
	send(messageBurst)
	if waited != 0 {
		t.Errorf("a burst after an hour was delayed by %v", waited)
	}
}
