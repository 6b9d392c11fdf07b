package gossip_test

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"colonnade/discovery/gossip"
	"colonnade/internal/testkit"
)

// A killed process is found dead by all others within two seconds in a small colo, and hardly later in one of 10 servers.
func TestKillIsSeenWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	f := func(servers int, want time.Duration) {
		seed := testkit.Seed(t)
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, seed)
			for n := range servers {
				g.start(fmt.Sprintf("ams-%d", n+1), nil)
			}
			g.together(10*time.Second, g.members...)
			victim, others := g.members[0], g.members[1:]
			g.kill(victim)
			took := g.within(want, "all others have found it dead", func() bool {
				for _, m := range others {
					if !m.foundDead(victim) {
						return false
					}
				}
				return true
			})
			t.Logf("%d servers: %v", servers, took)
			g.together(time.Second, others...)
			g.stop()
		})
	}
	f(2, 2*time.Second)
	f(3, 2*time.Second)
	f(10, 3*time.Second)
}

// A process that ends properly is found dead faster than any probe would.
func TestEndIsAnnounced(t *testing.T) {
	t.Parallel()
	seed := testkit.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, seed)
		a, b, c := g.start("ams-1", nil), g.start("ams-2", nil), g.start("ams-3", nil)
		g.together(10*time.Second, a, b, c)
		a.end()
		g.within(500*time.Millisecond, "both others have found it dead", func() bool { return b.foundDead(a) && c.foundDead(a) })
		g.stop()
	})
}

// Two halves that were cut from each other for much longer than the library gossips to the dead are whole again soon.
func TestLongSplitHeals(t *testing.T) {
	t.Parallel()
	seed := testkit.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, seed)
		for n := range 4 {
			g.start(fmt.Sprintf("ams-%d", n+1), nil)
		}
		left, right := g.members[:2], g.members[2:]
		g.together(10*time.Second, g.members...)
		g.isolate(left...)
		g.within(4*time.Second, "each half has found the other dead", func() bool {
			return left[0].foundDead(right[0]) && left[1].foundDead(right[1]) && right[0].foundDead(left[0]) && right[1].foundDead(left[1])
		})
		time.Sleep(5 * time.Minute)
		g.together(0, left...)
		g.together(0, right...)
		g.network.setCut(nil)
		g.together(8*time.Second, g.members...)
		g.stop()
	})
}

// A server that is restarted with another address is alive at once under its new boot id, and its earlier process is found dead.
func TestRestartIsANewMember(t *testing.T) {
	t.Parallel()
	seed := testkit.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, seed)
		a, b := g.start("ams-1", nil), g.start("ams-2", nil)
		g.together(10*time.Second, a, b)
		g.kill(a)
		again := g.start("ams-1", nil)
		g.within(2*time.Second, "the new process is alive", func() bool { return b.sees(again) && again.sees(b) })
		g.within(2*time.Second, "the earlier process is dead", func() bool { return b.foundDead(a) })
		if all := b.Members(); len(all) != 2 || !all[0].Alive || all[0].Boot != again.config.Boot || all[1].Alive {
			t.Errorf("Members: %+v", all)
		}
		g.stop()
	})
}

// A member with another key, or of another colo, takes no part, whichever side asks.
func TestOutsidersTakeNoPart(t *testing.T) {
	t.Parallel()
	f := func(what string, change func(*gossip.Config)) {
		seed := testkit.Seed(t)
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, seed)
			a, b, outsider := g.start("ams-1", nil), g.start("ams-2", nil), g.start("ams-3", change)
			g.together(10*time.Second, a, b)
			time.Sleep(time.Minute)
			if a.knows(outsider) || b.knows(outsider) || outsider.knows(a) || outsider.knows(b) {
				t.Errorf("%s: it takes part", what)
			}
			g.together(0, a, b)
			g.stop()
		})
	}
	f("another key", func(c *gossip.Config) { c.Keys = [][]byte{key(2)} })
	f("another colo", func(c *gossip.Config) { c.Colo = "fra" })
}

// During a rotation, members whose first keys differ understand each other if each has both.
func TestKeysAreRotated(t *testing.T) {
	t.Parallel()
	seed := testkit.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, seed)
		a := g.start("ams-1", func(c *gossip.Config) { c.Keys = [][]byte{key(1), key(2)} })
		b := g.start("ams-2", func(c *gossip.Config) { c.Keys = [][]byte{key(2), key(1)} })
		g.together(10*time.Second, a, b)
		time.Sleep(time.Minute)
		g.together(0, a, b)
		g.kill(a)
		g.within(2*time.Second, "the other has found it dead", func() bool { return b.foundDead(a) })
		g.stop()
	})
}

// A rotation in three steps, in which one member is always later than the other, goes unnoticed; a member without the new key does not take
// part afterwards.
func TestKeysAreReplacedWhileMembersRun(t *testing.T) {
	t.Parallel()
	seed := testkit.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, seed)
		only := func(c *gossip.Config) { c.Keys = [][]byte{key(1)} }
		a, b := g.start("ams-1", only), g.start("ams-2", only)
		g.together(10*time.Second, a, b)
		for _, keys := range [][][]byte{{key(1), key(2)}, {key(2), key(1)}, {key(2)}} {
			for _, m := range g.members {
				if err := m.ReplaceKeys(keys); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				g.together(0, a, b)
			}
		}
		stale := g.start("ams-3", only)
		time.Sleep(time.Minute)
		if a.knows(stale) || stale.knows(a) {
			t.Error("a member with the old key takes part")
		}
		for _, bad := range [][][]byte{nil, {key(3), make([]byte, 16)}} {
			if err := a.ReplaceKeys(bad); err == nil {
				t.Errorf("%d keys were not refused", len(bad))
			}
		}
		g.together(0, a, b)
		g.kill(a)
		g.within(2*time.Second, "the other has found it dead", func() bool { return b.foundDead(a) })
		g.stop()
	})
}

// Of any keys, those that were given are in force: the first encrypts.
func TestReplacedKeys(t *testing.T) {
	t.Parallel()
	f := func(before, after []byte) {
		t.Helper()
		all := func(numbers []byte) (keys [][]byte) {
			for _, n := range numbers {
				keys = append(keys, key(n))
			}
			return keys
		}
		got, err := gossip.Replaced(all(before), all(after))
		if err != nil {
			t.Fatal(err)
		}
		want := all(after)
		same := len(got) == len(want) && bytes.Equal(got[0], want[0])
		for _, k := range want {
			same = same && slices.ContainsFunc(got, func(g []byte) bool { return bytes.Equal(g, k) })
		}
		if !same {
			t.Errorf("%v, then %v: %d keys, the first %d", before, after, len(got), got[0][0])
		}
	}
	f([]byte{1}, []byte{1})
	f([]byte{1}, []byte{1, 2})
	f([]byte{1, 2}, []byte{2, 1})
	f([]byte{2, 1}, []byte{2})
	f([]byte{1}, []byte{2})
	f([]byte{1, 2, 3}, []byte{3, 2})
	f([]byte{1, 2, 3}, []byte{1, 3})
	f([]byte{1, 2, 3}, []byte{4, 5})
}

// With 30 % of all packets and connections lost, members find each other, a kill is seen, and hardly any process is found dead that is not.
func TestLoss(t *testing.T) {
	t.Parallel()
	seed := testkit.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, seed)
		g.network.setLoss(0.3)
		a, b, c := g.start("ams-1", nil), g.start("ams-2", nil), g.start("ams-3", nil)
		g.together(time.Minute, a, b, c)
		wrong, looks := 0, 0
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			for _, m := range g.members {
				for _, other := range g.members {
					looks++
					if m.foundDead(other) {
						wrong++
					}
				}
			}
		}
		t.Logf("found dead in %d of %d looks", wrong, looks)
		if wrong > looks/20 {
			t.Errorf("found dead in %d of %d looks", wrong, looks)
		}
		g.network.setLoss(0)
		g.together(10*time.Second, a, b, c)
		g.stop()
	})
}

// While no sibling can be reached, a member runs on, knows of no process.
func TestAloneNothingIsKnown(t *testing.T) {
	t.Parallel()
	seed := testkit.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, seed)
		var changed atomic.Int32
		a := g.start("ams-1", func(c *gossip.Config) { c.Changed = func() { changed.Add(1) } })
		g.isolate(a)
		b := g.start("ams-2", nil)
		time.Sleep(10 * time.Minute)
		if a.knows(b) || len(a.Members()) != 0 || changed.Load() != 0 {
			t.Errorf("known %v, members %v, changed %d", a.knows(b), a.Members(), changed.Load())
		}
		g.stop()
	})
}

// All packets that were ever sent are sent again, much later: no living process is found dead, and a dead one does not stay alive.
func TestReplays(t *testing.T) {
	t.Parallel()
	seed := testkit.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, seed)
		var mu sync.Mutex
		var replays []func()
		g.network.record = func(to *host, p *memberlist.Packet) {
			mu.Lock()
			defer mu.Unlock()
			replays = append(replays, func() { to.packets <- p })
		}
		a, b, c := g.start("ams-1", nil), g.start("ams-2", nil), g.start("ams-3", nil)
		g.together(10*time.Second, a, b, c)
		g.isolate(b) // so that it is reported dead, which it refutes later
		g.within(2*time.Second, "the cut one is found dead", func() bool { return a.foundDead(b) && c.foundDead(b) })
		g.network.setCut(nil)
		g.together(10*time.Second, a, b, c)
		c.end()
		g.within(time.Second, "the one that ended is dead", func() bool { return a.foundDead(c) && b.foundDead(c) })
		time.Sleep(time.Minute)

		mu.Lock()
		recorded := replays
		mu.Unlock()
		for _, replay := range recorded {
			replay()
			time.Sleep(20 * time.Millisecond)
			g.together(0, a, b)
		}
		g.within(3*time.Second, "the one that ended is dead still", func() bool { return a.foundDead(c) && b.foundDead(c) })
		g.stop()
	})
}

// A server alone in its colo sends nothing: not even to its own earlier process, whose registration has not expired yet.
func TestAloneNothingIsSent(t *testing.T) {
	t.Parallel()
	seed := testkit.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, seed)
		g.start("ams-1", nil).end()
		g.start("ams-1", nil)
		time.Sleep(10 * time.Minute)
		if n := g.network.sent(); n != 0 {
			t.Errorf("%d packets and connections", n)
		}
		b := g.start("ams-2", nil)
		g.together(3*time.Second, g.members[1], b)
		g.stop()
	})
}

// A function that handles changes and does not return holds up nothing but its next call.
func TestChangedMayBlock(t *testing.T) {
	t.Parallel()
	seed := testkit.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, seed)
		var calls atomic.Int32
		goOn := make(chan struct{})
		a := g.start("ams-1", func(c *gossip.Config) { c.Changed = func() { calls.Add(1); <-goOn } })
		b := g.start("ams-2", nil)
		g.together(10*time.Second, a, b)
		g.kill(b)
		g.within(2*time.Second, "it is found dead", func() bool { return a.foundDead(b) })
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls, want 1 that has not returned", n)
		}
		close(goOn)
		synctest.Wait()
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls, want one more for what changed meanwhile", n)
		}
		g.stop()
	})
}
