package capacity_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// These tests compare the order of dispatch and never a time. Requests wait while all slots are held; when the slots are
// freed one after the other, the engine's record shows the order. All that is compared happens before the pool has served
// 16 requests, from which on it charges for time too; so a slow machine changes nothing.

// startFair runs one colo whose engine takes no time and records its requests.
func startFair(t *testing.T, slots int, documents ...string) *fleettest.Fleet {
	t.Helper()
	engine := simengine.Config{Slots: slots, TTFT: -1, ITL: -1, Record: 1000}
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engine: engine},
		"key: pools/demo\nqueue: {limit: 100, per_account: 100, max_wait: 60s, promote_after: 1h}\n"+
			strings.Join(documents, ""))
	f.WatchShared(40)
	return f
}

// bodyOf returns the body of a request that the engine's record shows as sent by user.
func bodyOf(user, rest string) string {
	return fmt.Sprintf(`{"model":"demo-chat","user":%q,"messages":[{"role":"user","content":"hello"}],%s}`, user, rest)
}

// queue sends requests and waits until all of them wait.
func queue(f *fleettest.Fleet, requests int, authorization, body string) (waiting []*wiretest.Conn) {
	f.T.Helper()
	all := f.Pool("ams", "demo").Queued + requests
	for range requests {
		waiting = append(waiting, f.BeginChat(body, "Authorization: "+authorization))
	}
	testkit.WaitFor(f.T, "the requests to wait", func() bool { return f.Pool("ams", "demo").Queued == all })
	return waiting
}

// dispatchOrder returns the users of the requests that the engine got, in order.
func dispatchOrder(f *fleettest.Fleet) (users []string) {
	f.T.Helper()
	for _, r := range f.Engine("ams").Received() {
		var body struct{ User string }
		if err := json.Unmarshal(r.Body, &body); err != nil {
			f.T.Fatal(err)
		}
		if body.User != "" {
			users = append(users, body.User)
		}
	}
	return users
}

// count returns how many of the first requests were a user's.
func count(users []string, first int, user string) (n int) {
	for _, u := range users[:min(first, len(users))] {
		if u == user {
			n++
		}
	}
	return n
}

// While two accounts have requests waiting, the one of three times the weight is served three times as often.
func TestServedByWeight(t *testing.T) {
	t.Parallel()
	heavyDoc, heavy := fleettest.AccountWithKey("heavy", "weight: 3")
	lightDoc, light := fleettest.AccountWithKey("light", "")
	f := startFair(t, 1, heavyDoc, lightDoc)
	blockers := f.BlockSlots(1)
	waiting := queue(f, 12, light, bodyOf("light", `"max_tokens":1`))
	waiting = append(waiting, queue(f, 12, heavy, bodyOf("heavy", `"max_tokens":1`))...)
	fleettest.ServeAll(t, blockers, waiting)
	if n := count(dispatchOrder(f), 12, "heavy"); n < 8 || n > 10 {
		t.Errorf("of the first 12, %d were of the account with three times the weight, want about 9: %q", n, dispatchOrder(f))
	}
}

// Requests of a higher priority are served before all waiting ones of a lower priority.
func TestServedByPriority(t *testing.T) {
	t.Parallel()
	batchDoc, batch := fleettest.AccountWithKey("batch", "priority: batch")
	standardDoc, standard := fleettest.AccountWithKey("standard", "")
	interactiveDoc, interactive := fleettest.AccountWithKey("interactive", "priority: interactive")
	f := startFair(t, 1, batchDoc, standardDoc, interactiveDoc)
	blockers := f.BlockSlots(1)
	waiting := queue(f, 4, batch, bodyOf("batch", `"max_tokens":1`))
	waiting = append(waiting, queue(f, 4, standard, bodyOf("standard", `"max_tokens":1`))...)
	waiting = append(waiting, queue(f, 4, interactive, bodyOf("interactive", `"max_tokens":1`))...)
	fleettest.ServeAll(t, blockers, waiting)
	want := strings.Repeat("interactive ", 4) + strings.Repeat("standard ", 4) + strings.Repeat("batch ", 4)
	if got := strings.Join(dispatchOrder(f), " ") + " "; got != want {
		t.Errorf("served were %s", got)
	}
}

// An account whose outputs are twenty times as long is served a twentieth as often, plain or streamed.
func TestServedByCost(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		longDoc, long := fleettest.AccountWithKey("long", "")
		shortDoc, short := fleettest.AccountWithKey("short", "")
		f := startFair(t, 1, longDoc, shortDoc)
		blockers := f.BlockSlots(1)
		rest := fmt.Sprintf(`"stream":%v,"max_tokens":`, stream)
		waiting := queue(f, 12, long, bodyOf("long", rest+"200"))
		waiting = append(waiting, queue(f, 12, short, bodyOf("short", rest+"10"))...)
		fleettest.ServeAll(t, blockers, waiting)
		if n := count(dispatchOrder(f), 12, "long"); n < 1 || n > 2 {
			t.Errorf("streamed %v: of the first 12, %d were twenty times as long as others: %q", stream, n, dispatchOrder(f))
		}
	}
}

// handOut holds the slots while come sends requests that wait, then frees them, and returns the users of the requests that
// take them. None of these requests ends.
func handOut(f *fleettest.Fleet, slots int, come func()) (users []string) {
	f.T.Helper()
	engine := f.Engine("ams")
	turns := len(dispatchOrder(f))
	engine.SetFault(simengine.Fault{Fault: simengine.FaultStallHead})
	var blockers []*wiretest.Conn
	for range slots {
		blockers = append(blockers, f.BeginChat(fleettest.ChatBody(1000, false)))
	}
	testkit.WaitFor(f.T, "all slots to be taken", func() bool { return fleettest.InFlight(engine) == slots })
	come()
	for _, c := range blockers {
		c.Close()
	}
	testkit.WaitFor(f.T, "the slots to be taken again", func() bool { return len(dispatchOrder(f)) == turns+slots })
	return dispatchOrder(f)[turns:]
}

// An account whose requests announce short outputs (max_tokens) gets more slots, before any has ended.
func TestSlotsByMaxTokens(t *testing.T) {
	t.Parallel()
	longDoc, long := fleettest.AccountWithKey("long", "")
	shortDoc, short := fleettest.AccountWithKey("short", "")
	f := startFair(t, 8, longDoc, shortDoc)
	f.RawChat(fleettest.ChatBody(1000, false)) // an unknown account is expected to cost as much as the known ones
	users := handOut(f, 8, func() {
		queue(f, 8, long, bodyOf("long", `"max_tokens":1000`))
		queue(f, 8, short, bodyOf("short", `"max_tokens":1`))
	})
	if n := count(users, 8, "long"); n != 1 {
		t.Errorf("%d of 8 slots are for requests that say they may be long, want 1", n)
	}
}

// An account whose requests ask for many completions each (n, or many prompts) gets fewer slots, before any has ended.
func TestSlotsByCompletions(t *testing.T) {
	t.Parallel()
	manyDoc, many := fleettest.AccountWithKey("many", "")
	singleDoc, single := fleettest.AccountWithKey("single", "")
	f := startFair(t, 8, manyDoc, singleDoc)
	f.RawChat(fleettest.ChatBody(1000, false)) // an unknown account is expected to cost as much as the known ones
	users := handOut(f, 8, func() {
		queue(f, 8, many, bodyOf("many", `"max_tokens":10,"n":100`))
		queue(f, 8, single, bodyOf("single", `"max_tokens":10`))
	})
	if n := count(users, 8, "many"); n != 1 {
		t.Errorf("%d of 8 slots are for requests that ask for a hundred completions each, want 1", n)
	}
}

// An account whose outputs were short before gets more slots, also if its requests announce long ones.
func TestSlotsByLearnedCost(t *testing.T) {
	t.Parallel()
	longDoc, long := fleettest.AccountWithKey("long", "")
	shortDoc, short := fleettest.AccountWithKey("short", "")
	for _, stream := range []bool{false, true} {
		f := startFair(t, 8, longDoc, shortDoc)
		f.RawChat(fleettest.ChatBody(1000, false)) // so that the account that holds the slots at first is charged more than the other two
		f.RawChat(fleettest.ChatBody(1000, stream), "Authorization: "+long)
		f.RawChat(fleettest.ChatBody(1, stream), "Authorization: "+short)
		testkit.WaitFor(t, "the permits to be back", func() bool { return f.Pool("ams", "demo").Held == 0 })
		users := handOut(f, 8, func() {
			queue(f, 8, long, bodyOf("long", `"max_tokens":1000`))
			queue(f, 8, short, bodyOf("short", `"max_tokens":1000`))
		})
		if n := count(users, 8, "long"); n != 1 {
			t.Errorf("streamed %v: %d of 8 slots are for the account whose outputs are long, want 1", stream, n)
		}
	}
}

// A stream is charged to its account while it runs, not only at its end.
func TestStreamsAreChargedAsTheyRun(t *testing.T) {
	t.Parallel()
	streamsDoc, streams := fleettest.AccountWithKey("streams", "")
	plainDoc, plain := fleettest.AccountWithKey("plain", "")
	f := startFair(t, 2, streamsDoc, plainDoc,
		"---\nkey: models/demo-chat\npool: demo\ncost: {unit: tokens, output: 1, per: 1}\n")
	engine := f.Engine("ams")
	engine.SetFault(simengine.Fault{Fault: simengine.FaultStallStream, Count: 1})
	stream := f.BeginChat(fleettest.ChatBody(100, true), "Authorization: "+streams)
	stream.ReadUntil(`"content":"`, 4) // the role comes with the first of three tokens
	engine.SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: 1})
	blocker := f.BeginChat(fleettest.ChatBody(1, false))
	testkit.WaitFor(t, "the other slot to be taken", func() bool { return fleettest.InFlight(engine) == 2 })
	waiting := queue(f, 1, streams, bodyOf("streams", `"max_tokens":1`))
	waiting = append(waiting, queue(f, 4, plain, bodyOf("plain", `"max_tokens":1`))...)
	fleettest.ServeAll(t, []*wiretest.Conn{blocker}, waiting)
	// The client may have the last token a moment before it is charged.
	if got := strings.Join(dispatchOrder(f), " "); !strings.HasPrefix(got, "plain plain ") {
		t.Errorf("beside a stream that had three tokens, plain requests were served in the order %s", got)
	}
}

// A request that its engine refuses costs its account nothing.
func TestRefusedByEngineCostsNothing(t *testing.T) {
	t.Parallel()
	unluckyDoc, unlucky := fleettest.AccountWithKey("unlucky", "")
	luckyDoc, lucky := fleettest.AccountWithKey("lucky", "")
	f := startFair(t, 1, "---\nkey: models/refused\npool: demo\nupstream_name: demo-embed\n", unluckyDoc, luckyDoc)
	f.RawChat(fleettest.ChatBody(1000, false)) // an unknown account is expected to cost as much as the known ones
	f.Engine("ams").SetFault(simengine.Fault{Model: "demo-embed", Fault: simengine.FaultError400})
	blockers := f.BlockSlots(1)
	refused := queue(f, 3, unlucky, strings.Replace(bodyOf("unlucky", `"max_tokens":1000`), "demo-chat", "refused", 1))
	served := queue(f, 3, lucky, bodyOf("lucky", `"max_tokens":1`))
	fleettest.ServeAll(t, blockers, served)
	for _, c := range refused {
		if a := c.Read(); a.Status != 400 {
			t.Errorf("refused with %d %s", a.Status, a.Body)
		}
	}
	// One of each at first, as neither has been charged; then the account that was charged less.
	if got := strings.Join(dispatchOrder(f), " "); got != "unlucky lucky unlucky unlucky lucky lucky" {
		t.Errorf("served in the order %s", got)
	}
}
