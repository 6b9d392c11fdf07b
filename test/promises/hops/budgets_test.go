package hops_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

// While all engines fail or say that they are full, in any mixture, attempts are at most 1.2 for each request and 3, over three colos. An
// entry learns of the retries of colos with their answers, so those of requests that run at once may come on top.
func TestAttemptsStayWithinTheBudget(t *testing.T) {
	t.Parallel()
	f := startFar(t, fleettest.QuickEngine(16), noSpill, "")
	random := rand.New(rand.NewPCG(testkit.Seed(t), 1))
	faults := []string{simengine.FaultFull, simengine.FaultFull429, simengine.FaultError500, simengine.FaultRefuse, simengine.FaultHTMLError}
	total := 2 // requests that were served before
	atOnce := 1
	for round := range testkit.AtScale(3, 40) {
		set := "503 of all"
		f.InjectFault(simengine.FaultFull, 0)
		if round > 0 {
			set = ""
			for _, e := range f.Engines {
				fault := faults[random.IntN(len(faults))]
				e.Simulated.SetFault(simengine.Fault{Fault: fault})
				set += e.Colo + " " + fault + " "
			}
		}
		clients := 1
		if round > 0 {
			clients += random.IntN(8)
		}
		atOnce = max(atOnce, clients)
		var all sync.WaitGroup
		for range clients {
			each := 2 + random.IntN(5)
			total += each
			all.Go(func() {
				for n := range each {
					if a := f.Chat(chat(both[n%2], 1, n%3 == 0)); a.Status == 200 || a.Header.Get("x-colonnade-attempts") > "4" {
						t.Errorf("%s: %d after %s attempts: %.300q", set, a.Status, a.Header.Get("x-colonnade-attempts"), a.Body)
					}
				}
			})
		}
		all.Wait()
		if got := int(f.EngineRequests()); 5*got > 6*total+5*3*atOnce {
			t.Errorf("%s: the engines got %d attempts of %d requests", set, got, total)
		}
		f.ClearFaults()
	}
}

// Retries of colos that lead to an answer count in the entry's budget, too, so that it bounds all colos together: each colo by itself
// would allow three.
func TestServedRetriesCountInTheBudget(t *testing.T) {
	t.Parallel()
	config := farConfig(fleettest.QuickEngine(4))
	config.Engines = 2
	f := &farFleet{Fleet: fleettest.Start(t, config, farDocuments(noSpill+"\nbalance: {policy: round_robin}"))}
	f.WatchShared(48)
	requests, retries := 0, 0
	for range 3 {
		for _, colo := range []string{"ams", "fra", "iad"} {
			f.Engine(colo).SetFault(simengine.Fault{Fault: simengine.FaultError500, Count: 1})
			for range 2 { // at least one of two goes to the engine that fails
				requests++
				a := f.Chat(chat("only-"+colo, 1, false))
				switch attempts := a.Header.Get("x-colonnade-attempts"); {
				case a.Status == 200 && attempts == "2":
					retries++
				case a.Status != 200 && attempts != "1":
					t.Errorf("%d after %s attempts: %.300q", a.Status, attempts, a.Body)
				}
			}
			f.ClearFaults()
		}
	}
	if 5*retries > requests+5*3 || retries < 3 {
		t.Errorf("%d requests had %d retries, want three, which are saved, and at most one for five requests on top", requests, retries)
	}
}

// A request is not sent again after the first byte of an engine, nor once two engines have failed with it, although a colo before those had
// no room and sent it on.
func TestNoRetryOverTwoHops(t *testing.T) {
	t.Parallel()
	config := farConfig(fleettest.SteadyEngine(2))
	config.Engines = 2
	f := &farFleet{Fleet: fleettest.Start(t, config, farDocuments(noSpill))}
	f.WatchShared(48)
	f.served = f.Chat(chat(onward, 1, false)).Header.Get("x-request-id")
	f.fill("ams")
	n := 0
	once := func(model, fault string, stream bool, attempts int) {
		t.Helper()
		f.InjectFault(fault, 0)
		n++
		id := fmt.Sprintf("no-retry-%d", n)
		a := f.RawChat(chat(model, 20, stream), "x-request-id: "+id)
		f.ClearFaults()
		cut := fault == simengine.FaultCutAtChunk
		switch {
		case stream && cut:
			if a.Status != 200 || strings.Count(a.Body, `data: {"error"`) != 1 || strings.Contains(a.Body, "[DONE]") {
				t.Errorf("%s, %s: %d %v %.300q, want one error event", model, fault, a.Status, a.Err, a.Body)
			}
		case a.Status != 502 || a.Header.Get("x-should-retry") != "false":
			t.Errorf("%s, %s: %d %v, want 502, which must not be retried", model, fault, a.Status, a.Header)
		}
		if got := f.received(a.Header.Get("x-request-id")); len(got) != attempts || slices.Contains(got, "ams") || attempts == 2 && got[0] != got[1] {
			t.Errorf("%s, %s: the engines of %v got the request, want %d", model, fault, got, attempts)
		}
		if got := a.Header.Get("x-colonnade-attempts"); got != fmt.Sprint(attempts) {
			t.Errorf("%s, %s: x-colonnade-attempts is %s, want %d", model, fault, got, attempts)
		}
		want := []string{"request entry-1 engine_error"}
		for range attempts {
			want = append(want, "inference fra-1 engine_error")
		}
		if model == onward {
			want = append(want, "forward ams-1 engine_error")
		}
		f.expectEvents(id, want...)
		for range 5 { // pays for a retry
			f.expectServed(f.RawChat(chat(model, 1, false)), "ams, fra")
		}
	}
	for _, model := range both {
		once(model, simengine.FaultCutAtChunk, true, 1)
		once(model, simengine.FaultCutAtChunk, false, 1)
		once(model, simengine.FaultError500, false, 2)
		once(model, simengine.FaultRefuse, true, 2)
	}
}

// Faults of clients take no engine out and no colo, over two hops: requests that an engine refuses, and clients that leave.
func TestClientsFaultsEjectNothing(t *testing.T) {
	t.Parallel()
	f := startFar(t, fleettest.SteadyEngine(4), noSpill, "")
	f.fill("ams")
	for _, model := range both {
		f.Engine("fra").SetFault(simengine.Fault{Model: "demo-chat", Fault: simengine.FaultError400})
		for n := range 8 {
			if a := f.RawChat(chat(model, 1, n%2 == 0)); a.Status != 400 || a.Header.Get("x-colonnade-colo") != "fra" {
				t.Errorf("%s: %d by %s, want the engine's 400", model, a.Status, a.Header.Get("x-colonnade-colo"))
			}
		}
		f.Engine("fra").ClearFaults()
		for n := range 8 {
			c := f.BeginChat(chat(model, 1<<20, true), fmt.Sprintf("x-request-id: %s-leaves-%d", model, n))
			c.ReadUntil("data:", 1)
			c.Leave(n)
			f.freeSoon("fra")
			want := []string{"request entry-1 client_gone", "inference fra-1 client_gone"}
			if model == onward {
				want = append(want, "forward ams-1 client_gone")
			}
			f.expectEvents(fmt.Sprintf("%s-leaves-%d", model, n), want...)
		}
	}
	for _, colo := range []string{"ams", "fra", "iad"} {
		for _, e := range f.Pool(colo, "demo").Endpoints {
			if e.State != "up" {
				t.Errorf("the engine of %s is %s", colo, e.State)
			}
		}
	}
	f.expectServed(f.RawChat(chat(onward, 1, true)), "ams, fra")
}
