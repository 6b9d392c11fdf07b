package bench

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// A client that reads slowly holds the engine's slot, also behind a gateway that buffers as much of an answer as sockets
// take: the scenario relies on it. Sockets may grow to 8 MiB while the machine is busy, and the answer is longer than that.
func TestSlowClientsHoldSlots(t *testing.T) {
	const tokens, rate = 96, 8 << 20
	f := func(t *testing.T, a *runner) {
		t.Helper()
		began := time.Now()
		s := sample{}
		a.client.do(context.Background(), clock{began}, &request{id: 7, key: "k", tokens: tokens, input: 1, tokenBytes: slowToken,
			timeout: time.Minute, behaviour: behaviour{readRate: rate}}, &s)
		const reading = time.Duration(tokens*slowToken) * time.Second / rate
		if s.outcome != completed || s.ended < reading/2 {
			t.Errorf("an answer that takes %v to read was read in %v: %+v", reading, s.ended, s)
		}
		jobs := a.engines.takeJobs(began)
		if len(jobs) != 1 || jobs[0].id != 7 || !jobs[0].served {
			t.Fatalf("the engine saw %+v", jobs)
		}
		if held := jobs[0].held.duration(); held < reading/5 {
			t.Errorf("an answer that takes %v to read held its slot for %v", reading, held)
		}
	}
	t.Run("none", func(t *testing.T) { f(t, directRunner(t, 1, fast)) })
	t.Run("haproxy", func(t *testing.T) {
		a := directRunner(t, 2, fast)
		g, err := HAProxy(t.Context())
		if errors.Is(err, errNoHAProxy) {
			t.Skip(err)
		}
		if err == nil {
			a.target, err = g.Start(t.Context(), Setup{Engines: a.engines.setup(), Queue: Queue{Limit: 4, MaxWait: time.Second},
				Dir: t.TempDir()})
		}
		if err == nil {
			a.client, err = newClient(a.target.URL, "m")
		}
		if err != nil {
			t.Fatal(err)
		}
		f(t, a)
	})
}

// With few keys there are still accounts of each kind.
func TestReaderGroups(t *testing.T) {
	f := func(keys int, quiet, slow, others string) {
		t.Helper()
		s := &scenarioRun{accounts: slowAccounts()[:keys]}
		p := s.readerGroups()
		join := func(names []string) string { return strings.Join(names, " ") }
		if join(p.quiet) != quiet || join(p.slow) != slow || join(p.others) != others {
			t.Errorf("%d: %+v", keys, p)
		}
	}
	f(3, "quiet-1", "team-2", "team-1")
	f(6, "quiet-1 quiet-2", "team-2 team-4", "team-1 team-3")
	f(10, "quiet-1 quiet-2", "team-2 team-4 team-6 team-8", "team-1 team-3 team-5 team-7")
	if c := slowReadersScenario(); len(c.accounts) != 10 || c.minAccounts != 3 {
		t.Errorf("%d accounts, of which %d are enough", len(c.accounts), c.minAccounts)
	}
}

func TestSlotTimeOfAccounts(t *testing.T) {
	second := func(n int) time.Duration { return time.Duration(n) * time.Second }
	r := &result{slots: 4,
		trial: &trial{timing: timing{time.Second, time.Second}, flows: []flow{{account: "a"}, {account: "b"}},
			window: interval{0, second(10)}},
		samples: [][]sample{{{id: 1, outcome: completed}}, {{id: 2, flow: 1, outcome: completed}},
			{{id: 3, flow: 1, outcome: unfinished}}},
		jobs: []job{{id: 1, held: interval{0, second(4)}, tokens: 2, served: true},
			{id: 2, held: interval{0, second(10)}, tokens: 10, served: true},
			{id: 3, held: interval{second(5), second(20)}, tokens: 1}}}
	r.prepare()
	if a, b := r.slotShare([]string{"a"}), r.slotShare([]string{"b"}); a != 0.1 || b != 0.375 {
		t.Errorf("the accounts have %v and %v of the slots", a, b)
	}
	if a, b, all := r.goodput("a"), r.goodput("b"), r.goodput(); a != 0.2 || b != 1 || all != 1.2 {
		t.Errorf("the accounts' work is %v and %v, all of it %v", a, b, all)
	}
	if a, b := r.holdRatio([]string{"a"}), r.holdRatio([]string{"b"}); a != 2 || b != 1 {
		t.Errorf("the accounts hold slots for %v and %v times as long as they need", a, b)
	}
}

// The buffer and the packets of a slow connection are set before it is made.
func TestSlowConnections(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	cs := &conns{address: ln.Addr().String()}
	c, err := cs.dial(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer cs.put(c, false)
	theirs, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	_ = theirs.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	n := 0
	for err = nil; err == nil; {
		var wrote int
		wrote, err = theirs.Write(make([]byte, 64<<10))
		n += wrote
	}
	if n > 1<<20 {
		t.Errorf("%d KiB find room on the way to a client that does not read", n>>10)
	}
}
