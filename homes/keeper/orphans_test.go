package keeper_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/fleet"
	"colonnade/homes"
)

// The record of a process that is not registered is settled by what is known of the process.
func TestOrphansAreSettled(t *testing.T) {
	held := homes.Record{Process: sibling, Owns: map[string]int{engine("p"): 0}, Held: map[string]int{engine("q"): 2}}
	for name, c := range map[string]struct {
		answer func(*model)
		after  time.Duration
		ends   bool // the record is deleted, and not replaced
	}{
		"it refuses":    {func(m *model) { m.refuse(sibling) }, 250 * time.Millisecond, true},
		"it has ended":  {func(m *model) { m.answer(sibling, homes.Answer{}) }, 0, true},
		"it still runs": {func(m *model) { m.answer(sibling, homes.Answer{Held: map[string]int{engine("p"): 1}}) }, 0, false},
		"it is silent":  {func(*model) {}, homes.SilentHold, true},
		"it may grant":  {func(m *model) { m.answer(sibling, homes.Answer{MayGrant: true}) }, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, nil, func(t *testing.T, m *model) {
				c.answer(m)
				began := time.Now()
				m.start(table([]string{"p"}, server(self)), held)
				if c.after > 0 {
					m.want("beside the record")
				}
				for len(m.replacements()) == 0 && time.Since(began) < time.Minute {
					time.Sleep(50 * time.Millisecond)
				}
				all := m.replacements()
				if len(all) == 0 {
					if c.after < time.Hour {
						t.Fatal("the record stays")
					}
					return
				}
				if took := all[0].at.Sub(began); took < c.after || took > c.after+1100*time.Millisecond {
					t.Errorf("settled after %v", took)
				}
				if all[0].old != sibling || (all[0].new == nil) != c.ends {
					t.Errorf("%+v", all[0])
				}
				m.want("once it is settled", "p")
			})
		})
	}
}

// A process that has ended for certain is not kept waiting for by a question to another one.
func TestEndedProcessWaitsForNoQuestion(t *testing.T) {
	run(t, []string{"earlier"}, func(t *testing.T, m *model) {
		earlier := homes.Process{Node: self.Node, Boot: "earlier"}
		began := time.Now()
		m.start(table([]string{"p"}, server(self)), homes.Record{Process: third}, homes.Record{Process: earlier, Owns: map[string]int{engine("p"): 0}})
		time.Sleep(900 * time.Millisecond)
		if all := m.replacements(); len(all) != 1 || all[0].old != earlier || all[0].at.Sub(began) > 300*time.Millisecond {
			t.Errorf("%+v", all)
		}
		m.want("after its predecessor", "p")
	})
}

// A server without a data directory knows that its killed predecessor has ended by its address, which is now its own.
func TestPredecessorAtTheOwnAddressHasEnded(t *testing.T) {
	for _, node := range []string{self.Node, sibling.Node} {
		t.Run(node, func(t *testing.T) {
			run(t, nil, func(t *testing.T, m *model) {
				earlier := homes.Process{Node: node, Boot: "earlier"}
				m.do(func() {
					m.answers[earlier] = func(string) (homes.Answer, error) { return m.keeper.Answer(self, "earlier"), nil }
				})
				m.start(table([]string{"p"}, server(self)), homes.Record{Process: earlier, Owns: map[string]int{engine("p"): 0}})
				time.Sleep(time.Second)
				if node == self.Node {
					m.want("at the address of its predecessor", "p")
				} else { // an address that was written down by mistake says nothing about another server
					m.want("at the address of another server")
				}
			})
		})
	}
}

// Changes of records that fail are tried again, but not all the time, and logged once.
func TestFailedReplacementsAreRetriedSlowly(t *testing.T) {
	run(t, []string{"earlier"}, func(t *testing.T, m *model) {
		m.do(func() { m.replacing = errAway })
		m.start(table([]string{"p"}, server(self)), homes.Record{Process: homes.Process{Node: self.Node, Boot: "earlier"}, Owns: map[string]int{engine("p"): 0}})
		time.Sleep(10 * time.Second)
		if n := len(m.replacements()); n < 10 || n > 25 {
			t.Errorf("%d tries in 10 s", n)
		}
		m.do(func() {
			if m.warnings != 1 {
				t.Errorf("%d warnings", m.warnings)
			}
			m.replacing = nil
		})
		time.Sleep(time.Second)
		m.want("once the store answers", "p")
	})
}

// A server whose lease has expired stays in the table, and is company, for as long as it answers: also without a record.
func TestExpiredServersStayWhileTheyAnswer(t *testing.T) {
	for name, end := range map[string]func(m *model){
		"refuses":     func(m *model) { m.refuse(sibling) },
		"is replaced": func(m *model) { m.answer(sibling, homes.Answer{Ended: []string{sibling.Boot}}) },
		"is silent":   func(m *model) { m.do(func() { delete(m.answers, sibling) }) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, nil, func(t *testing.T, m *model) {
				marked := func() (dead bool) {
					m.do(func() { dead = slices.Contains(m.dead, fleet.KindServer.Key("ams", sibling.Node)) })
					return dead
				}
				m.answer(sibling, homes.Answer{Reaches: false})
				m.keeper.Apply(table([]string{"p"}, server(self), server(sibling)).WithStoreState(fleet.StoreState{
					ExpiredLeases: []string{fleet.KindServer.Key("ams", sibling.Node)},
				}))
				m.list()
				time.Sleep(2 * homes.SilentHold)
				if marked() || m.keeper.Alone() {
					t.Fatalf("dead: %t, alone: %t, though the server answers", marked(), m.keeper.Alone())
				}
				end(m)
				time.Sleep(homes.SilentHold + 5*time.Second)
				if !marked() {
					t.Error("the server stays though it is dead")
				}
			})
		})
	}
}

// An engine on which two servers may grant is reported if both say so twice: it may just change hands.
func TestCheckAsksTwice(t *testing.T) {
	run(t, nil, func(t *testing.T, m *model) {
		servers := []*fleet.Server{server(self), server(sibling)}
		pool := poolOf(self, servers...)
		m.start(table([]string{pool}, servers...))
		questions := 0
		always := false
		m.do(func() {
			m.answers[sibling] = func(string) (homes.Answer, error) {
				if questions++; questions == 1 || always {
					return homes.Answer{Boot: sibling.Boot, MayGrant: true, Grants: []string{engine(pool)}}, nil
				}
				return homes.Answer{Boot: sibling.Boot, MayGrant: true}, nil
			}
		})
		if wrong := m.keeper.Check(t.Context()); len(wrong) > 0 || questions != 2 {
			t.Errorf("an engine that changes hands: %v, after %d questions", wrong, questions)
		}
		always = true
		if wrong := m.keeper.Check(t.Context()); len(wrong) != 1 || !strings.Contains(wrong[0].Error(), engine(pool)) {
			t.Errorf("an engine on which two may grant: %v", wrong)
		}
		m.do(func() { m.mayGrant = false })
		if wrong := m.keeper.Check(t.Context()); len(wrong) > 0 {
			t.Errorf("a server that may not grant: %v", wrong)
		}
		m.refuse(sibling)
		if wrong := m.keeper.Check(t.Context()); len(wrong) != 1 || !strings.Contains(wrong[0].Error(), "none of the 1") {
			t.Errorf("no sibling is reached: %v", wrong)
		}
	})
}

// A 33rd active server works like the others, and each server says that there are more than are supported. A server that drains is not counted.
func TestMoreServersThanSupported(t *testing.T) {
	run(t, nil, func(t *testing.T, m *model) {
		servers := []*fleet.Server{server(self)}
		for i := range fleet.MaxServers {
			p := homes.Process{Node: fmt.Sprintf("other-%d", i), Boot: "b"}
			servers = append(servers, server(p))
			m.answer(p, homes.Answer{MayGrant: true})
		}
		pool := poolOf(self, servers...)
		servers[1].State = fleet.StateDraining
		m.start(table([]string{pool}, servers...))
		if wrong := m.keeper.Check(t.Context()); len(wrong) > 0 || m.warnings > 0 {
			t.Errorf("while one of them drains: %v, %d warnings", wrong, m.warnings)
		}
		another := *servers[1]
		another.State = fleet.StateActive
		servers[1] = &another
		for range 2 {
			m.keeper.Apply(table([]string{pool}, servers...))
			synctest.Wait()
		}
		if wrong := m.keeper.Check(t.Context()); len(wrong) != 1 || !strings.Contains(wrong[0].Error(), "33 active servers") || m.warnings != 1 {
			t.Errorf("with 33: %v, %d warnings", wrong, m.warnings)
		}
		m.want("with 33 servers", pool)
	})
}

// A drain waits until the table shows it, unless there is no other server.
func TestAwaitHandover(t *testing.T) {
	run(t, nil, func(t *testing.T, m *model) {
		wait := func(ctx context.Context) time.Duration {
			began := time.Now()
			m.keeper.AwaitHandover(ctx, time.Second)
			return time.Since(began)
		}
		m.start(table([]string{"p"}, server(self)))
		if took := wait(t.Context()); took > 0 {
			t.Errorf("alone: waits %v", took)
		}
		m.keeper.Apply(table([]string{"p"}, server(self), server(sibling)))
		if took := wait(t.Context()); took != time.Second {
			t.Errorf("a table that never shows the drain: waits %v", took)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if took := wait(ended); took > 0 {
			t.Errorf("out of time: waits %v", took)
		}
		draining := server(self)
		draining.State = "draining"
		go func() {
			time.Sleep(100 * time.Millisecond)
			m.keeper.Apply(table([]string{"p"}, draining, server(sibling)))
		}()
		if took := wait(t.Context()); took < 100*time.Millisecond || took > 200*time.Millisecond {
			t.Errorf("waits %v", took)
		}
		synctest.Wait()
		if m.keeper.Home("p").Here {
			t.Error("the pool stays at a server that drains")
		}
	})
}
