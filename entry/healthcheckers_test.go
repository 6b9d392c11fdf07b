package entry

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A drain waits for a health checker that checks at intervals, until it has got enough answers or has stopped.
func TestHealthCheckers(t *testing.T) {
	play := func(f func(p *healthCheckers, ask func(who string, draining bool, times int, every time.Duration))) {
		synctest.Test(t, func(*testing.T) {
			p := &healthCheckers{}
			f(p, func(who string, draining bool, times int, every time.Duration) {
				for range times {
					time.Sleep(every)
					p.asked(who, draining, time.Now())
				}
			})
		})
	}
	want := func(p *healthCheckers, want bool, when string) {
		t.Helper()
		if got := p.expected(); got != want {
			t.Errorf("%s: expected is %v", when, got)
		}
	}
	play(func(p *healthCheckers, ask func(string, bool, int, time.Duration)) {
		want(p, false, "no checks")
		ask("a", false, 1, time.Second)
		want(p, false, "one check")
		ask("a", false, 3, 5*time.Second)
		want(p, true, "a balancer asks")
		ask("a", true, 2, 5*time.Second)
		want(p, true, "two answers")
		ask("a", true, 1, 5*time.Second)
		want(p, false, "three answers")
	})
	play(func(p *healthCheckers, ask func(string, bool, int, time.Duration)) {
		ask("a", false, 3, 2*time.Second)
		time.Sleep(5 * time.Second)
		want(p, true, "it is late")
		time.Sleep(2 * time.Second)
		want(p, false, "it has stopped to ask")
	})
	play(func(p *healthCheckers, ask func(string, bool, int, time.Duration)) {
		ask("a", false, 3, 2*time.Second)
		ask("b", false, 2, 0)
		ask("b", false, 1, time.Second)
		ask("a", true, 3, time.Second)
		want(p, false, "one has its answers, and the other has stopped meanwhile")
		ask("b", false, 2, time.Second)
		want(p, true, "the other asks again")
	})
	play(func(p *healthCheckers, ask func(string, bool, int, time.Duration)) {
		for range 5 {
			ask("a", false, 1, 2*time.Second)
			ask("b", false, 1, 3*time.Second)
		}
		want(p, true, "two take turns")
		ask("a", true, 3, 4*time.Second)
		want(p, true, "one of two has its answers")
		ask("b", true, 3, time.Second)
		want(p, false, "both have their answers")
	})
	play(func(p *healthCheckers, ask func(string, bool, int, time.Duration)) {
		for i := range 10 * mostProbers {
			ask(fmt.Sprint(i), false, 2, time.Second)
		}
		if n := len(p.byAddress); n > mostProbers {
			t.Errorf("%d are kept in mind", n)
		}
		ask("last", false, 2, time.Second)
		want(p, true, "a check after many others")
	})
}
