package entry

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/openai"
)

func testStops(names ...string) []candidate {
	var stops []candidate
	for _, n := range names {
		stops = append(stops, candidate{Colo: &fleet.Colo{Name: n}})
	}
	return stops
}

// testAttempts returns attempts at colos of one server each.
func testAttempts(plan []candidate, q queueMode, r fleet.Retry) *attempts {
	return newAttempts(plan, func(colo string) []*fleet.Server { return testServers(colo, 1) }, q, r)
}

// testServers returns the line of a colo of n servers.
func testServers(colo string, n int) []*fleet.Server {
	var servers []*fleet.Server
	for i := range n {
		servers = append(servers, &fleet.Server{Colo: colo, Node: fmt.Sprintf("%s-%d", colo, i+1)})
	}
	return servers
}

var testRetry = fleet.Retry{Errors: 3, OutOfCapacity: 4}

func ooc(reason string, retryAfter, expected time.Duration, mayWait bool) hop.Verdict {
	return hop.Verdict{Kind: hop.VerdictOOC, Number: 42902, Reason: reason, RetryAfter: retryAfter, Expected: expected, MayWait: mayWait}
}

func always() bool { return true }
func never() bool  { return false }

// walk runs the tries with what each colo answers, and returns the colos in the order they were asked, with how.
func walk(t *attempts, answers map[string]hop.Verdict) []string {
	var way []string
	for {
		at, ok := t.next()
		if !ok {
			return way
		}
		way = append(way, at.Colo.Name+" "+string(at.wait))
		switch v, ok := answers[at.Colo.Name]; {
		case !ok:
			return append(way, "served")
		case v.Number == openai.NumberModelNotFound:
			t.modelUnknown(openai.ModelNotFound("m"))
		case v.Kind == hop.VerdictOOC:
			refuse(t, at, v)
		case v.Kind == hop.VerdictMoved:
			t.moved(at, nil, false, peer.ErrorOf(v))
		default:
			t.failed(peer.ErrorOf(v), v, always)
		}
	}
}

func TestEachColoIsTriedOnce(t *testing.T) {
	full := ooc("queue_full", 3*time.Second, 0, false)
	least := ooc("queue_full", 2*time.Second, 0, false)
	tr := testAttempts(testStops("ams", "fra", "waw"), queueDefault, testRetry)
	way := walk(tr, map[string]hop.Verdict{"ams": full, "fra": least, "waw": full})
	if want := []string{"ams spill", "fra spill", "waw full"}; !slices.Equal(way, want) {
		t.Errorf("tried %v, want %v", way, want)
	}
	if e := tr.clientError(); e.Number != 42902 || e.RetryAfter != 2*time.Second || e.Reason != "queue_full" {
		t.Errorf("outcome = %+v, want out of capacity with the smallest Retry-After", e)
	}
}

// A colo that drains is passed over and uses nothing up. Only where that is all there is to say, the client hears it.
func TestColoThatDrains(t *testing.T) {
	moved := hop.Verdict{Kind: hop.VerdictMoved, Number: 50301, Reason: "draining", RetryAfter: 2 * time.Second}
	tr := testAttempts(testStops("ams", "fra", "waw"), queueDefault, fleet.Retry{})
	if way := walk(tr, map[string]hop.Verdict{"ams": moved, "fra": moved}); !slices.Equal(way, []string{"ams spill", "fra spill", "waw full", "served"}) {
		t.Errorf("tried %v", way)
	}
	tr = testAttempts(testStops("ams", "fra"), queueDefault, testRetry)
	walk(tr, map[string]hop.Verdict{"ams": moved, "fra": moved})
	if e := tr.clientError(); e.Status != 503 || e.Code != "unavailable" || e.Reason != "draining" || e.RetryAfter != 2*time.Second {
		t.Errorf("outcome = %+v", e)
	}
	tr = testAttempts(testStops("ams", "fra"), queueDefault, testRetry)
	walk(tr, map[string]hop.Verdict{"ams": moved, "fra": ooc("queue_full", 5*time.Second, 0, false)})
	if e := tr.clientError(); e.Status != 429 || e.Reason != "queue_full" || e.RetryAfter != 5*time.Second {
		t.Errorf("outcome = %+v, want what the colo says that stays", e)
	}
}

// A request that waits in a colo which begins to drain goes on to the next colo that would let it wait.
func TestWaiterOfAColoThatDrains(t *testing.T) {
	tr := testAttempts(testStops("ams", "fra"), queueDefault, testRetry)
	full := map[string]hop.Verdict{
		"ams": ooc("busy", time.Second, 100*time.Millisecond, true), "fra": ooc("busy", time.Second, 200*time.Millisecond, true),
	}
	for range 2 {
		at, _ := tr.next()
		refuse(tr, at, full[at.Colo.Name])
	}
	for _, want := range []string{"ams", "fra"} {
		at, ok := tr.next()
		if !ok || at.Colo.Name != want || at.wait != hop.WaitFull {
			t.Errorf("tried %+v, want to wait in %s", at, want)
			break
		}
		tr.moved(at, nil, false, openai.Unavailable("draining", time.Second))
	}
	if _, ok := tr.next(); ok {
		t.Error("there is a further try")
	}
}

// A colo that does not know the model yet, or any more, is passed over and uses nothing up.
func TestColoThatDoesNotKnowTheModel(t *testing.T) {
	gone := hop.Verdict{Kind: hop.VerdictError, Number: openai.NumberModelNotFound, Reason: "unknown_model"}
	tr := testAttempts(testStops("ams", "fra", "waw"), queueDefault, fleet.Retry{})
	if way := walk(tr, map[string]hop.Verdict{"ams": gone, "fra": gone}); !slices.Equal(way, []string{"ams spill", "fra spill", "waw full", "served"}) {
		t.Errorf("tried %v", way)
	}
	tr = testAttempts(testStops("ams", "fra"), queueDefault, testRetry)
	walk(tr, map[string]hop.Verdict{"ams": gone, "fra": gone})
	if e := tr.clientError(); e.Status != 404 || e.Code != "model_not_found" {
		t.Errorf("outcome = %+v, want that there is no such model", e)
	}
	tr = testAttempts(testStops("ams", "fra"), queueDefault, testRetry)
	walk(tr, map[string]hop.Verdict{"ams": ooc("queue_full", time.Second, 0, false), "fra": gone})
	if e := tr.clientError(); e.Status != 429 {
		t.Errorf("outcome = %+v, want that the colo that knows it is full", e)
	}
}

func TestLastTryWaitsWhereItIsShortest(t *testing.T) {
	answers := map[string]hop.Verdict{
		"ams": ooc("busy", 3*time.Second, 900*time.Millisecond, true),
		"fra": ooc("busy", 3*time.Second, 400*time.Millisecond, true),
		"waw": ooc("busy", 3*time.Second, 700*time.Millisecond, true),
	}
	tr := testAttempts(testStops("ams", "fra", "waw"), queueDefault, testRetry)
	way := walk(tr, answers)
	want := []string{"ams spill", "fra spill", "waw spill", "fra full", "waw full", "ams full"}
	if !slices.Equal(way, want) {
		t.Errorf("tried %v, want %v", way, want)
	}
}

func TestLastColoKnowsWhatToBeat(t *testing.T) {
	tr := testAttempts(testStops("ams", "fra"), queueDefault, testRetry)
	first, _ := tr.next()
	refuse(tr, first, ooc("busy", time.Second, 600*time.Millisecond, true))
	last, ok := tr.next()
	if !ok || last.wait != hop.WaitSpill || last.below != 600*time.Millisecond {
		t.Errorf("the last colo is tried with %+v, %v; want to wait there if it is below 600ms", last, ok)
	}
}

func TestKnownWaitBeatsUnknown(t *testing.T) {
	tr := testAttempts(testStops("ams", "fra", "waw"), queueDefault, testRetry)
	way := walk(tr, map[string]hop.Verdict{
		"ams": ooc("busy", time.Second, 0, true), // expected wait not known
		"fra": ooc("busy", time.Second, 5*time.Second, true),
		"waw": ooc("queue_full", time.Second, 0, false),
	})
	if want := []string{"ams spill", "fra spill", "waw spill", "fra full", "ams full"}; !slices.Equal(way, want) {
		t.Errorf("tried %v, want %v", way, want)
	}
}

// Many may find the same colo the best at once, and not all of them have room there.
func TestLastTryGoesOnWhereThereIsNoRoomLeft(t *testing.T) {
	tr := testAttempts(testStops("ams", "fra", "waw"), queueDefault, testRetry)
	for _, expected := range []time.Duration{2 * time.Second, 0, time.Second} {
		at, _ := tr.next()
		refuse(tr, at, ooc("busy", 4*time.Second, expected, true))
	}
	last := map[string]time.Duration{"waw": 5 * time.Second, "ams": 9 * time.Second, "fra": 6 * time.Second}
	for _, want := range []string{"waw", "ams", "fra"} { // what is not known comes last
		at, ok := tr.next()
		if !ok || at.Colo.Name != want || at.wait != hop.WaitFull {
			t.Fatalf("last try %v %v at %v, want to wait in %s", ok, at.wait, at.Colo, want)
		}
		refuse(tr, at, ooc("account_queue_full", last[want], 0, false))
	}
	if at, ok := tr.next(); ok {
		t.Errorf("one try too many: %v", at)
	}
	if e := tr.clientError(); e.Reason != "account_queue_full" || e.RetryAfter != 5*time.Second {
		t.Errorf("outcome = %+v, want the reason of the last try and the smallest Retry-After that a colo has said last", e)
	}
}

// A request whose time for waiting is used up asks the other colos without waiting, since a slot may be free there.
func TestOtherColosAreAskedAfterTheWait(t *testing.T) {
	tr := testAttempts(testStops("ams", "fra"), queueDefault, testRetry)
	way := walk(tr, map[string]hop.Verdict{
		"ams": ooc("queue_timeout", time.Second, time.Second, true), "fra": ooc("queue_timeout", time.Second, 2*time.Second, true),
	})
	if want := []string{"ams spill", "fra spill", "ams full", "fra full"}; !slices.Equal(way, want) {
		t.Errorf("tried %v, want %v", way, want)
	}
	if e := tr.clientError(); e.Reason != "queue_timeout" {
		t.Errorf("outcome = %+v", e)
	}
}

// The latest refusal of a colo replaces its earlier ones, and the client gets the smallest Retry-After of the latest, also if another
// colo drains meanwhile.
func TestRetryAfterIsOfTheLatestRefusals(t *testing.T) {
	tr := testAttempts(testStops("ams", "fra", "waw"), queueDefault, testRetry)
	for _, retryAfter := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
		at, _ := tr.next()
		refuse(tr, at, ooc("busy", retryAfter, retryAfter, true))
	}
	f := func(want time.Duration) {
		t.Helper()
		if e := tr.clientError(); e.Status != 429 || e.RetryAfter != want {
			t.Errorf("outcome = %+v, want %v", e, want)
		}
	}
	f(time.Second)
	at, _ := tr.next()
	refuse(tr, at, ooc("queue_full", 9*time.Second, 0, false))
	f(2 * time.Second)
	at, _ = tr.next()
	tr.moved(at, nil, false, openai.Unavailable("draining", time.Second))
	f(3 * time.Second)
	at, _ = tr.next()
	refuse(tr, at, ooc("queue_full", 8*time.Second, 0, false))
	f(8 * time.Second)
	tr.deadlineNear()
	f(8 * time.Second)
}

// The probability that a refused client comes back to a colo is in proportion to its slots, as far as these are known.
func TestReturnProbabilities(t *testing.T) {
	f := func(full int, slots []int, want ...float64) {
		t.Helper()
		stops := testStops("a", "b", "c", "d")[:len(slots)]
		for i, n := range slots {
			stops[i].slots = n
		}
		tr := testAttempts(stops, queueDefault, fleet.Retry{OutOfCapacity: full})
		for i, want := range want {
			at, _ := tr.next()
			if math.Abs(at.returnProbability-want) > 1e-9 {
				t.Errorf("%d of %v slots: %v, want %v", i, slots, at.returnProbability, want)
			}
			refuse(tr, at, ooc("busy", time.Second, time.Second, true))
		}
	}
	const unheard, none = 0, -1
	f(4, []int{16}, 1)
	f(4, []int{unheard}, 1)
	f(4, []int{none}, 0)
	f(4, []int{unheard, unheard}, 0.5, 0.5)
	f(4, []int{30, 10}, 0.75, 0.25)
	f(4, []int{30, none, 10}, 0.75, 0, 0.25)
	f(4, []int{30, unheard, 10}, 0.5, 1./3, 1./6)
	f(1, []int{30, 10, 10, 10}, 0.75, 0.25) // the others are not asked
}

func TestOneColoWaitsAtOnce(t *testing.T) {
	tr := testAttempts(testStops("ams"), queueDefault, testRetry)
	if way := walk(tr, nil); !slices.Equal(way, []string{"ams full", "served"}) {
		t.Errorf("tried %v", way)
	}
}

func TestQueueHeader(t *testing.T) {
	busy := map[string]hop.Verdict{
		"ams": ooc("busy", time.Second, time.Second, true), "fra": ooc("busy", time.Second, time.Second, true),
	}
	tr := testAttempts(testStops("ams", "fra"), queueNever, testRetry)
	if way := walk(tr, busy); !slices.Equal(way, []string{"ams never", "fra never"}) {
		t.Errorf("never: tried %v", way)
	}
	tr = testAttempts(testStops("ams", "fra"), queueWait, testRetry)
	if way := walk(tr, nil); !slices.Equal(way, []string{"ams full", "served"}) {
		t.Errorf("wait: tried %v", way)
	}
}

func TestOutOfCapacityBudget(t *testing.T) {
	busy := ooc("busy", time.Second, time.Second, true)
	answers := map[string]hop.Verdict{"a": busy, "b": busy, "c": busy, "d": busy}
	tr := testAttempts(testStops("a", "b", "c", "d"), queueDefault, fleet.Retry{OutOfCapacity: 1})
	if way := walk(tr, answers); !slices.Equal(way, []string{"a spill", "b spill", "a full", "b full"}) {
		t.Errorf("tried %v, want one further colo and the last tries", way)
	}
}

// A colo whose engines said "full" has cost an attempt, unlike one that had no slot.
func TestFullEnginesCostRetries(t *testing.T) {
	full := ooc("queue_full", time.Second, 0, false)
	tr := testAttempts(testStops("ams", "fra"), queueDefault, testRetry)
	at, _ := tr.next()
	refuse(tr, at, full)
	tr.charge(full, never)
	if at, ok := tr.next(); ok {
		t.Errorf("without budget, %v was tried", at)
	}
	if e := tr.clientError(); e.Number != 42902 || e.NoRetry {
		t.Errorf("outcome = %+v, want out of capacity", e)
	}
	tr = testAttempts(testStops("ams"), queueDefault, testRetry)
	at, _ = tr.next()
	refuse(tr, at, full)
	tr.charge(full, func() bool {
		t.Error("the budget was asked though nothing is left to try")
		return true
	})
}

func TestErrorsGoOnWhileBudgetsLast(t *testing.T) {
	failed := hop.Verdict{Kind: hop.VerdictError, Number: 50001, Reason: "no_answer", EndpointsFailed: 1}
	answers := map[string]hop.Verdict{"ams": failed, "fra": failed}
	tr := testAttempts(testStops("ams", "fra", "waw"), queueDefault, testRetry)
	if way := walk(tr, answers); !slices.Equal(way, []string{"ams spill", "fra spill", "waw full", "served"}) {
		t.Errorf("tried %v", way)
	}

	tr = testAttempts(testStops("ams", "fra", "waw"), queueDefault, fleet.Retry{Errors: 1, OutOfCapacity: 4})
	if way := walk(tr, answers); !slices.Equal(way, []string{"ams spill", "fra spill"}) {
		t.Errorf("with one retry: tried %v", way)
	}
	if e := tr.clientError(); e.Number != 50001 || !e.NoRetry {
		t.Errorf("outcome = %+v", e)
	}

	tr = testAttempts(testStops("ams", "fra"), queueDefault, testRetry)
	at, _ := tr.next()
	tr.failed(openai.EngineFailed("x"), failed, never)
	if next, ok := tr.next(); ok {
		t.Errorf("after %v, without budget, %v was tried", at, next)
	}
}

// That an engine failed says more than that another colo has none.
func TestFailureBesideColosWithoutEndpoint(t *testing.T) {
	tr := testAttempts(testStops("ams", "fra"), queueDefault, testRetry)
	walk(tr, map[string]hop.Verdict{
		"ams": {Kind: hop.VerdictError, Number: 50001, Reason: "no_answer", EndpointsFailed: 1},
		"fra": {Kind: hop.VerdictOOC, Number: 50301, Reason: "no_endpoint", RetryAfter: time.Second},
	})
	if e := tr.clientError(); e.Status != 502 || !e.NoRetry {
		t.Errorf("outcome = %+v, want the engine's failure, which forbids to try again", e)
	}
}

// A colo that does not know the model, which its entry knows, says less than any other.
func TestUnknownModelBesideOthers(t *testing.T) {
	unknown := hop.Verdict{Kind: hop.VerdictError, Number: openai.NumberModelNotFound, Reason: "unknown_model"}
	for status, other := range map[int]hop.Verdict{
		404: unknown,
		429: ooc("queue_full", time.Second, 0, false),
		502: {Kind: hop.VerdictError, Number: 50001, Reason: "no_answer"},
		503: {Kind: hop.VerdictOOC, Number: 50301, Reason: "no_endpoint", RetryAfter: time.Second},
	} {
		for _, answers := range []map[string]hop.Verdict{{"ams": unknown, "fra": other}, {"ams": other, "fra": unknown}} {
			tr := testAttempts(testStops("ams", "fra"), queueDefault, testRetry)
			walk(tr, answers)
			if e := tr.clientError(); e.Status != status {
				t.Errorf("%v: outcome = %+v, want %d", answers, e, status)
			}
		}
	}
}

func TestTwoBrokenEndpointsAreEnough(t *testing.T) {
	failed := hop.Verdict{Kind: hop.VerdictError, Number: 50001, EndpointsFailed: 2}
	tr := testAttempts(testStops("ams", "fra"), queueDefault, testRetry)
	if way := walk(tr, map[string]hop.Verdict{"ams": failed}); !slices.Equal(way, []string{"ams spill"}) {
		t.Errorf("tried %v: a third endpoint was given to a request that broke two", way)
	}
}

func TestFinalVerdictEnds(t *testing.T) {
	final := hop.Verdict{Kind: hop.VerdictError, Number: 50401, Reason: "first_byte_timeout", Final: true}
	tr := testAttempts(testStops("ams", "fra"), queueDefault, testRetry)
	if way := walk(tr, map[string]hop.Verdict{"ams": final}); len(way) != 1 {
		t.Errorf("tried %v after a final verdict", way)
	}
	if e := tr.clientError(); e.Status != 504 {
		t.Errorf("outcome = %+v, want 504", e)
	}
}

func TestLostServerIsForgivenOnce(t *testing.T) {
	tr := testAttempts(testStops("ams", "fra", "waw"), queueDefault, testRetry)
	at, _ := tr.next()
	tr.serverLost(at, openai.EngineFailed("colo_unreachable"), never)
	at, ok := tr.next()
	if !ok || at.Colo.Name != "fra" {
		t.Fatalf("after the first loss: %v, %v", at, ok)
	}
	tr.serverLost(at, openai.EngineFailed("colo_unreachable"), never)
	if at, ok := tr.next(); ok {
		t.Errorf("after the second loss, without budget, %v was tried", at)
	}
}

// A colo whose engines, or whose server, cannot be connected costs the request nothing: nothing was sent. But it does not hide that an
// engine failed before, which may have generated an answer.
func TestNotSentIsFree(t *testing.T) {
	unsent := hop.Verdict{Kind: hop.VerdictError, Number: 50001, Reason: "connect_failed", Unsent: true}
	full := ooc("busy", 2*time.Second, 0, false)
	full.Unsent = true
	f := func(first hop.Verdict, wantStatus int, noRetry bool) {
		t.Helper()
		tr := testAttempts(testStops("ams", "fra", "waw", "lis"), queueDefault, fleet.Retry{Errors: 1, OutOfCapacity: 4})
		asked := 0
		for at, ok := tr.next(); ok; at, ok = tr.next() {
			switch asked++; at.Colo.Name {
			case "ams":
				tr.failed(peer.ErrorOf(first), first, always)
			case "fra":
				tr.failed(peer.ErrorOf(unsent), unsent, never)
			case "waw":
				tr.notConnected(at, openai.Unavailable("no_server", time.Second))
			default:
				refuse(tr, at, full)
				tr.charge(full, never)
			}
		}
		if e := tr.clientError(); asked != 4 || e.Status != wantStatus || e.NoRetry != noRetry {
			t.Errorf("%d colos were asked, outcome = %+v", asked, e)
		}
	}
	f(unsent, 429, false)
	f(hop.Verdict{Kind: hop.VerdictError, Number: 50001, Reason: "no_answer", EndpointsFailed: 1}, 429, false)

	tr := testAttempts(testStops("ams", "fra"), queueDefault, testRetry)
	failed := hop.Verdict{Kind: hop.VerdictError, Number: 50001, Reason: "no_answer", EndpointsFailed: 1}
	tr.next()
	tr.failed(peer.ErrorOf(failed), failed, always)
	tr.next()
	tr.failed(peer.ErrorOf(unsent), unsent, never)
	if e := tr.clientError(); e.Reason != "no_answer" || !e.NoRetry {
		t.Errorf("outcome = %+v, want the engine's failure", e)
	}
}

func TestPlanWithoutColos(t *testing.T) {
	tr := testAttempts(nil, queueDefault, testRetry)
	if _, ok := tr.next(); ok {
		t.Error("an empty plan has a try")
	}
	if e := tr.clientError(); e.Status != 503 {
		t.Errorf("outcome = %+v, want 503", e)
	}
	// One colo is full, the other has no endpoint: to come back later is the better advice.
	tr = testAttempts(testStops("ams", "fra"), queueDefault, testRetry)
	walk(tr, map[string]hop.Verdict{
		"ams": ooc("queue_full", 9*time.Second, 0, false),
		"fra": {Kind: hop.VerdictOOC, Number: 50301, Reason: "no_endpoint", RetryAfter: time.Second},
	})
	if e := tr.clientError(); e.Status != 429 || e.RetryAfter != 9*time.Second {
		t.Errorf("outcome = %+v, want the full colo's", e)
	}
}

// A walk that ends since the deadline is near ends as out of capacity for that, but not where something has failed.
func TestNoTimeForAnotherTry(t *testing.T) {
	f := func(answers map[string]hop.Verdict, number int, reason string, after time.Duration) {
		t.Helper()
		tr := testAttempts(testStops("ams", "fra", "waw")[:len(answers)], queueDefault, testRetry)
		walk(tr, answers)
		tr.deadlineNear()
		if e := tr.clientError(); e.Number != number || e.Reason != reason || e.RetryAfter != after {
			t.Errorf("%v: %+v, want %d, %s, %v", answers, e, number, reason, after)
		}
	}
	f(nil, 42902, "deadline", time.Second)
	busy := ooc("busy", 3*time.Second, 0, false)
	f(map[string]hop.Verdict{"ams": busy}, 42902, "deadline", 3*time.Second)
	f(map[string]hop.Verdict{"ams": {Kind: hop.VerdictOOC, Number: 50301, Reason: "no_endpoint"}, "fra": busy}, 42902, "deadline", 3*time.Second)
	broken := hop.Verdict{Kind: hop.VerdictError, Number: 50001, Reason: "truncated"}
	f(map[string]hop.Verdict{"ams": broken}, 50001, "truncated", 0)
}

// The refusal of a colo whose queue held the request for a time stands, whatever colos say that did not let it wait.
func TestRefusalAfterAWaitStands(t *testing.T) {
	for name, waited := range map[string]int{"first": 0, "in the middle": 1, "last": 2} {
		tr := testAttempts(testStops("ams", "fra", "waw"), queueDefault, testRetry)
		for i := range 3 {
			at, _ := tr.next()
			visit := hop.Visit{Verdict: ooc("busy", 3*time.Second, 0, true)}
			if i == waited {
				visit = hop.Visit{Verdict: ooc("deadline", 4*time.Second, 0, true), Queued: time.Second}
			}
			tr.refused(at, &visit, peer.ErrorOf(visit.Verdict))
		}
		if e := tr.clientError(); e.Reason != "deadline" || e.RetryAfter != 3*time.Second {
			t.Errorf("%s: %+v, want the reason deadline, after 3 s", name, e)
		}
	}
}

// refuse lets a colo answer an attempt with a verdict.
func refuse(t *attempts, at attempt, v hop.Verdict) {
	t.refused(at, &hop.Visit{Verdict: v}, peer.ErrorOf(v))
}
