package entry

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A prober that asks at intervals is waited for until it was told often enough, or has stopped to ask.
func TestProbers(t *testing.T) {
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
		want(p, false, "nobody asks")
		ask("a", false, 1, time.Second)
		want(p, false, "somebody has asked once")
		ask("a", false, 3, 5*time.Second)
		want(p, true, "a balancer asks")
		ask("a", true, 2, 5*time.Second)
		want(p, true, "it was told twice")
		ask("a", true, 1, 5*time.Second)
		want(p, false, "it was told three times")
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
		want(p, false, "one was told, and the other has stopped to ask meanwhile")
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
		want(p, true, "one of two was told")
		ask("b", true, 3, time.Second)
		want(p, false, "both were told")
	})
	play(func(p *healthCheckers, ask func(string, bool, int, time.Duration)) {
		for i := range 10 * mostProbers {
			ask(fmt.Sprint(i), false, 2, time.Second)
		}
		if n := len(p.byAddress); n > mostProbers {
			t.Errorf("%d are kept in mind", n)
		}
		ask("last", false, 2, time.Second)
		want(p, true, "somebody asks after many others")
	})
}
