package keeper_test

import (
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/homes"
)

// A server that is alone goes on although the store went away while it registered again.
func TestAloneGoesOnAfterAFailedRegistration(t *testing.T) {
	run(t, nil, func(_ *testing.T, m *model) {
		m.start(table([]string{"p"}, server(self)))
		m.do(func() { m.mayGrant, m.putError, m.confirmed = false, errAway, time.Now() })
		m.keeper.StopGrants() // the transaction that registers gets no answer
		m.want("while it registers")
		time.Sleep(1500 * time.Millisecond)
		m.do(func() { m.mayGrant = true }) // by the fence, which knows that it is alone
		m.want("while the store may answer yet")
		time.Sleep(1500 * time.Millisecond)
		m.want("once the store is silent", "p")
		m.do(func() { m.putError, m.confirmed = nil, time.Time{} })
		m.keeper.StopGrants()
		m.want("while it registers again")
		m.register()
		m.want("registered", "p")
	})
}

// A server that has company does not.
func TestInCompanyStopsAfterAFailedRegistration(t *testing.T) {
	run(t, nil, func(_ *testing.T, m *model) {
		servers := []*fleet.Server{server(self), server(sibling)}
		pool := poolOf(self, servers...)
		m.start(table([]string{pool}, servers...))
		m.want("registered", pool)
		m.do(func() { m.confirmed = time.Now() })
		m.keeper.StopGrants()
		time.Sleep(5 * time.Second)
		m.want("after a registration without an answer")
	})
}

// Rights that a server has assumed without the store end as soon as it knows of another server.
func TestAssumptionEndsInCompany(t *testing.T) {
	for name, meet := range map[string]func(*model){
		"in the table": func(m *model) { m.keeper.Apply(table([]string{"p"}, server(self), server(sibling))) },
		"by its record": func(m *model) {
			m.list(homes.Record{Process: sibling, Owns: map[string]int{engine("p"): 0}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, nil, func(t *testing.T, m *model) {
				m.do(func() { m.confirmed = time.Now().Add(-time.Hour) })
				m.keeper.Apply(table([]string{"p"}))
				m.keeper.Assume()
				m.want("alone", "p")
				meet(m)
				m.want("in company")
				if m.keeper.Alone() {
					t.Error("alone, although there is another server")
				}
			})
		})
	}
}

// A process that has this server's name on another machine is company; one that has ended is not.
func TestNamesakeIsCompany(t *testing.T) {
	run(t, []string{"ended"}, func(t *testing.T, m *model) {
		namesake := func(boot string) *fleet.Server { return server(homes.Process{Node: self.Node, Boot: boot}) }
		old := namesake("old") // of a version that kept no list of its processes
		old.Protocol.Max = homes.SharingProtocol - 1
		for _, c := range []struct {
			server *fleet.Server
			alone  bool
		}{{namesake("ended"), true}, {namesake("unknown"), false}, {namesake(self.Boot), true}, {old, true}} {
			m.keeper.Apply(table([]string{"p"}, c.server))
			if m.keeper.Alone() != c.alone {
				t.Errorf("beside boot %s: alone = %t", c.server.Boot, m.keeper.Alone())
			}
		}
		m.list(homes.Record{Process: homes.Process{Node: self.Node, Boot: "unknown"}})
		if m.keeper.Alone() {
			t.Error("alone beside the record of a namesake")
		}
		m.list(homes.Record{Process: homes.Process{Node: self.Node, Boot: "ended"}}, homes.Record{Process: homes.Process{Node: "by-hand"}})
		if !m.keeper.Alone() {
			t.Error("not alone beside the records of no process")
		}
	})
}

// While the store is silent, the words of all other processes count: also of those that are known by their records alone.
func TestWordsOfAllOthers(t *testing.T) {
	run(t, nil, func(t *testing.T, m *model) {
		vouched := func(want bool) {
			t.Helper()
			if got := m.keeper.Vouched().After(time.Now()); got != want {
				t.Errorf("vouched: %t", got)
			}
		}
		m.answer(sibling, homes.Answer{MayGrant: true})
		m.answer(third, homes.Answer{MayGrant: true, Reaches: true})
		m.start(table(nil, server(self), server(sibling)), homes.Record{Process: third})
		time.Sleep(10 * time.Second)
		vouched(false) // the store answers
		m.do(func() { m.confirmed = time.Now() })
		time.Sleep(4 * time.Second)
		vouched(false) // one reaches the store
		m.answer(third, homes.Answer{MayGrant: true})
		time.Sleep(time.Second)
		vouched(true)
		m.keeper.Answer(sibling, "another process")
		vouched(true)
		m.keeper.Answer(sibling, self.Boot) // a sibling that reaches the store misses this process
		vouched(false)
		time.Sleep(10 * time.Second)
		vouched(false)
		m.refuse(third)
		m.do(func() { m.confirmed = time.Now() })
		time.Sleep(time.Second) // the store confirms the registration again
		vouched(false)
		time.Sleep(3 * time.Second)
		vouched(true)
		m.do(func() { delete(m.answers, sibling) })
		time.Sleep(3 * time.Second)
		vouched(true) // the word lasts for nine tenths of a TTL
		time.Sleep(3 * time.Second)
		vouched(false)
	})
}

// A process that is asked about its own record and may not grant registers again, and sends its requests to the siblings meanwhile.
func TestAnswerAboutOwnRecord(t *testing.T) {
	run(t, nil, func(t *testing.T, m *model) {
		servers := []*fleet.Server{server(self), server(sibling)}
		pool := poolOf(self, servers...)
		m.start(table([]string{pool}, servers...))
		if a := m.keeper.Answer(sibling, self.Boot); !a.MayGrant || len(a.Grants) != 1 || m.forgotten > 0 {
			t.Errorf("%+v, asked to register %d times", a, m.forgotten)
		}
		m.do(func() { m.mayGrant, m.held[engine(pool)] = false, 3 })
		if a := m.keeper.Answer(sibling, self.Boot); a.MayGrant || len(a.Grants) > 0 || a.Held[engine(pool)] != 3 || m.forgotten != 1 {
			t.Errorf("%+v, asked to register %d times", a, m.forgotten)
		}
		m.want("replaced")
		if h := m.keeper.Home(pool); h.Here || h.Node != sibling.Node || h.Boot != sibling.Boot || h.Protocol != fleet.Protocol {
			t.Errorf("requests stay: %+v", h)
		}
		m.register()
		m.want("registered again", pool)
		if !m.keeper.Home(pool).Here {
			t.Error("requests are sent away")
		}
	})
}

// A server whose right has lapsed for a second sends requests to the siblings that may reach the store, and to no others.
func TestLapsedServerSendsRequestsOn(t *testing.T) {
	run(t, nil, func(t *testing.T, m *model) {
		servers := []*fleet.Server{server(self), server(sibling)}
		pool := poolOf(self, servers...)
		m.answer(sibling, homes.Answer{MayGrant: true, Reaches: true})
		m.start(table([]string{pool}, servers...))
		here := func(want bool) {
			t.Helper()
			if got := m.keeper.Home(pool).Here; got != want {
				t.Errorf("requests stay here: %t", got)
			}
		}
		m.do(func() { m.mayGrant, m.confirmed = false, time.Now() })
		time.Sleep(1200 * time.Millisecond)
		here(true)
		time.Sleep(4 * time.Second)
		here(false)
		m.answer(sibling, homes.Answer{})
		time.Sleep(time.Second)
		here(true) // the sibling could only send them back
		m.answer(sibling, homes.Answer{Reaches: true})
		time.Sleep(time.Second)
		here(false)
		m.do(func() { m.mayGrant = true })
		time.Sleep(time.Second)
		here(true)
	})
}

// Requests that wait for a home that did not answer go back to it once it answers that it may grant; not to one that would send them on.
func TestStandInsReturn(t *testing.T) {
	run(t, nil, func(t *testing.T, m *model) {
		servers := []*fleet.Server{server(self), server(sibling)}
		pool := poolOf(sibling, servers...)
		m.start(table([]string{pool}, servers...))
		returned := func(want bool) {
			t.Helper()
			m.do(func() {
				if got := len(m.returned) > 0; got != want {
					t.Errorf("returned: %t", got)
				}
			})
		}
		m.answer(sibling, homes.Answer{MayGrant: true})
		time.Sleep(2 * time.Second)
		m.do(func() {
			if len(m.asked) > 0 || len(m.returned) > 0 {
				t.Error("the home is asked for no request")
			}
			delete(m.answers, sibling)
			m.standIns[pool] = 2
		})
		time.Sleep(3 * time.Second)
		returned(false)
		m.answer(sibling, homes.Answer{})
		time.Sleep(3 * time.Second)
		returned(false)
		m.answer(sibling, homes.Answer{MayGrant: true, Drains: true})
		time.Sleep(3 * time.Second)
		returned(false)
		m.answer(sibling, homes.Answer{MayGrant: true})
		time.Sleep(2 * time.Second)
		returned(true)
	})
}
