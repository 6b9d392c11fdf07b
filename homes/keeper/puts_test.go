package keeper_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/homes"
)

// A server grants on its engines once the store has shown its record.
func TestGrantsOnceTheRecordIsShown(t *testing.T) {
	run(t, nil, func(_ *testing.T, m *model) {
		m.keeper.Apply(table([]string{"p", "q"}, server(self)))
		m.list()
		m.want("before it is registered")
		m.do(func() { m.putError = errAway })
		m.register()
		m.want("before its put stands")
		m.do(func() { m.putError = nil })
		time.Sleep(time.Second)
		m.want("once its put stands", "p", "q")
	})
}

// A server that is no longer the home puts what it holds at once, and counts it down at most every 200 ms.
func TestCountsDownSlowly(t *testing.T) {
	run(t, nil, func(t *testing.T, m *model) {
		both := []string{"p", "q", "r", "s"}
		m.do(func() {
			for _, name := range both {
				m.held[engine(name)] = 100
			}
		})
		m.start(table(both, server(self)))
		m.want("alone", both...)
		time.Sleep(time.Second)
		began := time.Now()
		joined := server(sibling)
		moved := poolOf(sibling, server(self), joined)
		m.keeper.Apply(table(append(both, moved), server(self), joined))
		synctest.Wait()
		if puts := m.putsSince(began); len(puts) != 1 || puts[0].at != began {
			t.Fatalf("%d puts when the home moves: %+v", len(puts), puts)
		}
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			m.do(func() {
				for url := range m.held {
					m.held[url]--
				}
			})
			m.keeper.Observe(homes.Change{Revision: m.revision})
		}
		synctest.Wait()
		puts := m.putsSince(began)
		if len(puts) < 4 || len(puts) > 6 {
			t.Errorf("%d puts in a second that only count down", len(puts))
		}
	})
}

// The counts of held requests fall within 200 ms, also if the records of others change before that: the new home waits for them.
func TestCountsDownDespiteOtherChanges(t *testing.T) {
	run(t, nil, func(t *testing.T, m *model) {
		joined := server(sibling)
		moved := poolOf(sibling, server(self), joined)
		m.do(func() { m.held[engine(moved)] = 4 })
		m.start(table([]string{moved}, server(self)))
		m.want("alone", moved)
		m.keeper.Apply(table([]string{moved}, server(self), joined))
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		m.keeper.Observe(homes.Change{Revision: m.revision})
		synctest.Wait()
		ended := time.Now()
		m.do(func() { clear(m.held) })
		time.Sleep(200 * time.Millisecond)
		if puts := m.putsSince(ended); len(puts) != 1 || len(puts[0].held) != 0 {
			t.Errorf("puts within 200 ms of the end of all requests: %+v", puts)
		}
	})
}

// An engine that a server owns anew is put at once, also while it counts down.
func TestNewEnginesArePutAtOnce(t *testing.T) {
	run(t, nil, func(t *testing.T, m *model) {
		m.start(table([]string{"p"}, server(self)))
		for i := range 5 {
			time.Sleep(10 * time.Millisecond)
			began := time.Now()
			name := fmt.Sprintf("p%d", i)
			m.keeper.Apply(table([]string{"p", name}, server(self)))
			m.want("with a new engine", "p", name)
			if puts := m.putsSince(began); len(puts) == 0 || puts[0].at != began {
				t.Error("a new engine is not put at once")
			}
		}
	})
}

// Puts that fail are tried again after longer and longer, and logged once.
func TestFailedPutsBackOff(t *testing.T) {
	run(t, nil, func(t *testing.T, m *model) {
		m.do(func() { m.putError = errAway })
		m.start(table([]string{"p"}, server(self)))
		time.Sleep(20 * time.Second)
		if n := len(m.putsSince(time.Time{})); n < 15 || n > 30 {
			t.Errorf("%d puts in 20 s", n)
		}
		m.do(func() {
			if m.warnings != 1 {
				t.Errorf("%d warnings", m.warnings)
			}
			m.putError = nil
		})
		time.Sleep(time.Second)
		m.want("once the store answers", "p")
	})
}

// A record that is lost ends all grants, and the process registers again; until then it puts nothing.
func TestLostRecordEndsGrants(t *testing.T) {
	run(t, nil, func(t *testing.T, m *model) {
		m.start(table([]string{"p"}, server(self)))
		m.do(func() { m.putError = etcd.ErrRecordLost })
		m.keeper.Apply(table([]string{"p", "q"}, server(self)))
		m.want("after a put that found the record lost")
		began := time.Now()
		time.Sleep(10 * time.Second)
		if n := len(m.putsSince(began.Add(1))); n > 0 || m.forgotten != 1 {
			t.Errorf("%d puts without a registration, and asked %d times to register", n, m.forgotten)
		}
		m.do(func() { m.putError = nil })
		m.register()
		m.want("registered again", "p", "q")
		m.observe(homes.Change{Deleted: []homes.Process{self}})
		m.want("after the record was deleted by hand")
		if m.forgotten != 2 {
			t.Errorf("asked %d times to register", m.forgotten)
		}
	})
}

// Beside a server of an older version, a server owns nothing: also while that one drains, since it counts its requests nowhere.
func TestOwnsNothingBesideAnOldServer(t *testing.T) {
	run(t, nil, func(t *testing.T, m *model) {
		old := server(sibling)
		old.Protocol.Max = homes.SharingProtocol - 1
		m.start(table([]string{"p", "q", "r"}, server(self), old))
		m.want("beside an old server")
		draining := *old
		draining.State = "draining"
		m.keeper.Apply(table([]string{"p", "q", "r"}, server(self), &draining))
		m.want("beside an old server that drains")
		if m.keeper.OldServer() == nil || !m.keeper.Home("p").Here {
			t.Error("requests do not wait here for the end of the old server")
		}
		m.keeper.Apply(table([]string{"p", "q", "r"}, server(self)))
		m.want("once it has gone", "p", "q", "r")
	})
}
