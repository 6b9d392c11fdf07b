package entry

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/internal/testkit"
	"colonnade/openai"
	"colonnade/reasons"
)

// lineAttempts returns attempts at colos of n servers each.
func lineAttempts(n int, colos ...string) *attempts {
	return newAttempts(testStops(colos...), func(colo string) []*fleet.Server { return testServers(colo, n) }, queueDefault, testRetry)
}

var errMoved, errLost = openai.Unavailable(reasons.Draining, time.Second), openai.EngineFailed(reasons.ColoUnreachable)

// expectAttempt returns the next attempt, which must be at a node, and must name those that did not answer.
func expectAttempt(t *testing.T, tr *attempts, node string, unanswered ...string) attempt {
	t.Helper()
	at, ok := tr.next()
	if !ok || at.server().Node != node || !slices.Equal(at.line.unanswered, unanswered) {
		t.Fatalf("tried %v %+v, want %s, with %v unanswered", ok, at, node, unanswered)
	}
	return at
}

// A home that does not answer is followed by the next in line of its colo, with how long the request may wait; then by the next colo.
func TestNextInLineFollowsOneThatDoesNotAnswer(t *testing.T) {
	tr := lineAttempts(3, "ams", "fra")
	at := expectAttempt(t, tr, "ams-1")
	tr.notConnected(at, openai.Unavailable(reasons.NoServer, time.Second))
	at = expectAttempt(t, tr, "ams-2", "ams-1")
	if at.wait != hop.WaitSpill {
		t.Errorf("the next in line is asked to wait %s", at.wait)
	}
	tr.serverLost(at, errLost, never) // free: the first that is lost
	at = expectAttempt(t, tr, "ams-3", "ams-1", "ams-2")
	tr.notConnected(at, openai.Unavailable(reasons.NoServer, time.Second))
	if at = expectAttempt(t, tr, "fra-1"); at.wait != hop.WaitFull {
		t.Errorf("the last colo is asked to wait %s", at.wait)
	}
	tr.serverLost(at, errLost, never)
	if at, ok := tr.next(); ok {
		t.Errorf("after the second loss, without budget, %+v was tried", at)
	}
	if e := tr.clientError(); e.Reason != reasons.ColoUnreachable || !e.NoRetry {
		t.Errorf("outcome = %+v", e)
	}
}

// A server that is not the home names it: the request goes there next, free of budgets, with its place in the queue if it had one.
func TestMovedWithinAColo(t *testing.T) {
	tr := newAttempts(testStops("ams", "fra"), func(colo string) []*fleet.Server { return testServers(colo, 3) }, queueDefault, fleet.Retry{OutOfCapacity: 1})
	servers := testServers("ams", 4)
	tr.moved(expectAttempt(t, tr, "ams-1"), servers[2], false, errMoved)
	at := expectAttempt(t, tr, "ams-3")
	if at.rejoin {
		t.Error("a request that had no place in a queue rejoins one")
	}
	tr.moved(at, servers[3], true, errMoved) // a server that has joined since
	at = expectAttempt(t, tr, "ams-4")
	tr.moved(at, servers[1], false, errMoved)
	at = expectAttempt(t, tr, "ams-2")
	if !at.rejoin || at.wait != hop.WaitSpill {
		t.Errorf("a request that had a place in a queue goes on with %+v", at)
	}
	refuse(tr, at, ooc("busy", 3*time.Second, time.Second, true))
	at = expectAttempt(t, tr, "fra-1")
	if at.rejoin || at.below != time.Second {
		t.Errorf("in another colo it goes on with %+v", at)
	}
	if tr.fullLeft != 0 || tr.errorsLeft != 0 || tr.lostServerOnce {
		t.Errorf("budgets: %+v", tr)
	}
}

// A home that was named and does not answer is followed by the server that has named it.
func TestNamedHomeDoesNotAnswer(t *testing.T) {
	tr := lineAttempts(2, "ams", "fra")
	home := testServers("ams", 3)[2]
	tr.moved(expectAttempt(t, tr, "ams-1"), home, true, errMoved)
	tr.notConnected(expectAttempt(t, tr, "ams-3"), errLost)
	at := expectAttempt(t, tr, "ams-1", "ams-3")
	if !at.rejoin {
		t.Error("the request has lost its place")
	}
	tr.moved(at, home, false, errMoved) // ams-1 hears it
	tr.notConnected(expectAttempt(t, tr, "ams-3"), errLost)
	expectAttempt(t, tr, "ams-1", "ams-3")
}

// A request that two servers send to each other, and that has nowhere else to go, waits at one of them, and then at the other.
func TestWaitsWhereTwoServersNameEachOther(t *testing.T) {
	tr := lineAttempts(2, "ams")
	servers := testServers("ams", 2)
	for i := range maxMoves {
		tr.moved(expectAttempt(t, tr, servers[i%2].Node), servers[1-i%2], i == 0, errMoved)
	}
	tr.moved(expectAttempt(t, tr, "ams-1"), servers[1], false, errMoved)
	at := expectAttempt(t, tr, "ams-1", "ams-2")
	if !at.rejoin {
		t.Error("the request has lost its place")
	}
	tr.moved(at, servers[1], true, errMoved) // which answers ams-1
	tr.moved(expectAttempt(t, tr, "ams-2", "ams-1"), servers[0], true, errMoved)
	if at, ok := tr.next(); ok {
		t.Errorf("tried %+v", at)
	}
}

// A server that drains is not asked again if another one names it: a request that it has sent away waits at the server that names it.
func TestServerThatDrains(t *testing.T) {
	drains := func(at attempt) attempt {
		at.line = at.line.noteDraining(true)
		return at
	}
	tr := lineAttempts(3, "ams", "fra")
	servers := testServers("ams", 3)
	tr.moved(drains(expectAttempt(t, tr, "ams-1")), servers[1], true, errMoved)
	tr.moved(expectAttempt(t, tr, "ams-2"), servers[0], false, errMoved) // which does not know of the drain
	at := expectAttempt(t, tr, "ams-2", "ams-1")
	if !at.rejoin {
		t.Error("the request has lost its place")
	}
	tr.moved(drains(at), servers[0], false, errMoved) // both drain
	at = expectAttempt(t, tr, "ams-3", "ams-1")
	again := *servers[0]
	again.Boot = "another"
	tr.moved(at, &again, false, errMoved)
	at = expectAttempt(t, tr, "ams-1")
	if at.server().Boot != "another" {
		t.Errorf("asks the process %q", at.server().Boot)
	}

	tr = lineAttempts(3, "ams")
	tr.notConnected(expectAttempt(t, tr, "ams-1"), errLost)
	tr.moved(drains(expectAttempt(t, tr, "ams-2", "ams-1")), servers[0], false, errMoved) // which is dead
	expectAttempt(t, tr, "ams-3", "ams-1")

	tr = lineAttempts(2, "ams") // all drain: the one that may have a free slot is asked
	tr.moved(drains(expectAttempt(t, tr, "ams-1")), servers[1], false, errMoved)
	tr.moved(drains(expectAttempt(t, tr, "ams-2")), servers[0], false, errMoved)
	for range maxMoves + maxStandIns {
		if at, ok := tr.next(); ok {
			tr.moved(drains(at), servers[0], false, errMoved)
		}
	}
	if at, ok := tr.next(); ok {
		t.Errorf("tried %+v", at)
	}
}

// A server that has joined is asked when those of the line have sent a request away without naming another.
func TestServerThatJoinsFollowsThoseThatDrain(t *testing.T) {
	servers := testServers("ams", 1)
	tr := newAttempts(testStops("ams"), func(string) []*fleet.Server { return servers }, queueDefault, testRetry)
	at := expectAttempt(t, tr, "ams-1")
	servers = testServers("ams", 2)
	tr.moved(at, nil, false, errMoved)
	expectAttempt(t, tr, "ams-2")
}

// A request that waits for long outlives many changes of its colo's servers, each of which may move it.
func TestMovesBeginAnewWithEachChange(t *testing.T) {
	tr := lineAttempts(2, "ams")
	servers := testServers("ams", 2)
	move := func(i int, revision int64) {
		t.Helper()
		at := expectAttempt(t, tr, servers[i%2].Node)
		at.line = at.line.knownUpTo(revision)
		tr.moved(at, servers[1-i%2], false, errMoved)
	}
	for i := range maxChanges {
		move(i, int64(i+1))
	}
	for i := maxChanges; i < maxChanges+maxMoves-1; i++ {
		move(i, int64(i+1))
	}
	at, _ := tr.next()
	at.line = at.line.knownUpTo(1 << 40)
	tr.moved(at, servers[0], false, errMoved)
	if at, ok := tr.next(); !ok || len(at.line.unanswered) != 1 {
		t.Errorf("after all moves, tried %+v", at)
	}
}

// After four moves in one colo, or without a server to go to, the request goes on to the next colo. If no colo says more, the client hears
// that it is to come back.
func TestMovesAreBounded(t *testing.T) {
	tr := lineAttempts(2, "ams", "fra")
	servers := testServers("ams", 2)
	for i := range maxMoves {
		tr.moved(expectAttempt(t, tr, servers[i%2].Node), servers[1-i%2], false, errMoved)
	}
	tr.moved(expectAttempt(t, tr, servers[0].Node), servers[1], false, errMoved)
	at := expectAttempt(t, tr, "fra-1")
	tr.moved(at, at.server(), false, errMoved) // nonsense, which counts as no name
	tr.moved(expectAttempt(t, tr, "fra-2"), nil, false, errMoved)
	if at, ok := tr.next(); ok {
		t.Errorf("tried %+v", at)
	}
	if e := tr.clientError(); e.Status != 503 || e.Reason != reasons.Draining || e.RetryAfter != time.Second {
		t.Errorf("outcome = %+v", e)
	}

	tr = lineAttempts(2, "ams")
	tr.moved(expectAttempt(t, tr, "ams-1"), servers[1], false, errMoved)
	tr.charge(hop.Verdict{RetriesMade: 9}, never) // after engines of that pool have failed
	if at, ok := tr.next(); ok {
		t.Errorf("without budget, %+v was tried", at)
	}
	if e := tr.clientError(); e.Reason != reasons.Draining {
		t.Errorf("outcome = %+v", e)
	}
}

// A request waits at the server that has said that it may, and knows which have not answered before.
func TestRequestWaitsAtTheServerThatAnswered(t *testing.T) {
	tr := lineAttempts(3, "ams", "fra")
	tr.notConnected(expectAttempt(t, tr, "ams-1"), errLost)
	refuse(tr, expectAttempt(t, tr, "ams-2", "ams-1"), ooc("busy", time.Second, time.Second, true))
	refuse(tr, expectAttempt(t, tr, "fra-1"), ooc("busy", time.Second, 2*time.Second, true))
	at := expectAttempt(t, tr, "ams-2", "ams-1")
	if at.wait != hop.WaitFull {
		t.Errorf("got %+v", at)
	}
	tr.serverLost(at, errLost, never)
	expectAttempt(t, tr, "ams-3", "ams-1", "ams-2")
}

// An attempt may be given up only if the request can go on.
func TestMayLose(t *testing.T) {
	f := func(tr *attempts, left int, want bool) {
		t.Helper()
		at, _ := tr.next()
		if got := tr.mayLose(&at, left); got != want {
			t.Errorf("got %v", got)
		}
	}
	f(lineAttempts(1, "ams"), 9, false)
	f(lineAttempts(2, "ams"), 0, true)
	f(lineAttempts(1, "ams", "fra"), 0, true)
	lost := func(errors int) *attempts {
		tr := lineAttempts(3, "ams")
		tr.errorsLeft = errors
		at, _ := tr.next()
		tr.serverLost(at, errLost, never)
		return tr
	}
	f(lost(1), 1, true)
	f(lost(0), 1, false)
	f(lost(1), 0, false)
}

// Whatever the servers answer, a request ends, asks no server more often than the bounds allow, and knows a reason.
func TestRandomWalks(t *testing.T) {
	seed := testkit.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		colos := []string{"a", "b", "c", "d"}[:1+random.IntN(4)]
		servers := 1 + random.IntN(4)
		w := walkOf(random, servers, colos)
		if problem := w.run(); problem != "" {
			t.Fatalf("%s\n%d servers in each of %v; %s", problem, servers, colos, strings.Join(w.log, ", "))
		}
	}
}

// randomWalk is a walk with what is counted of it.
type randomWalk struct {
	*attempts
	random  *rand.Rand
	servers int
	budget  int
	errors  int
	asked   map[string]int // by node
	moves   map[string]int // by colo
	full    map[string]int // refusals by colo
	lost    int            // servers, and attempts that failed
	log     []string
}

func walkOf(random *rand.Rand, servers int, colos []string) *randomWalk {
	w := &randomWalk{random: random, servers: servers, budget: random.IntN(4), errors: random.IntN(4), asked: map[string]int{}, moves: map[string]int{}, full: map[string]int{}}
	w.attempts = newAttempts(testStops(colos...), func(colo string) []*fleet.Server { return testServers(colo, servers) },
		queueDefault, fleet.Retry{Errors: w.errors, OutOfCapacity: random.IntN(5)})
	return w
}

func (w *randomWalk) take() bool {
	w.budget--
	return w.budget >= 0
}

// run returns what is wrong with the walk.
func (w *randomWalk) run() string {
	free := w.errors
	for range 1000 {
		at, ok := w.next()
		if !ok {
			if w.clientError() == nil {
				return "no error for the client"
			}
			return ""
		}
		node, colo := at.server().Node, at.Colo.Name
		w.log = append(w.log, node)
		w.asked[node]++
		switch {
		case w.asked[node] > 2+w.moves[colo]:
			return fmt.Sprintf("%s was asked %d times, after %d moves", node, w.asked[node], w.moves[colo])
		case w.lost > 1+free:
			return fmt.Sprintf("after %d losses, %s is asked", w.lost, node)
		case slices.Contains(at.line.unanswered, node):
			return node + " learns that it did not answer"
		}
		if problem := w.answer(at); problem != "" {
			return problem
		}
	}
	return "it does not end"
}

// answer lets a server answer in one of the ways there are.
func (w *randomWalk) answer(at attempt) string {
	colo := at.Colo.Name
	switch w.random.IntN(7) {
	case 0:
		w.log = append(w.log, "full")
		if w.full[colo]++; w.full[colo] > 2 {
			return colo + " has refused the request three times"
		}
		refuse(w.attempts, at, ooc("busy", time.Second, time.Duration(w.random.IntN(3))*time.Second, w.random.IntN(2) == 0))
	case 1:
		w.log = append(w.log, "lost")
		w.lost++
		w.serverLost(at, errLost, w.take)
	case 2:
		w.log = append(w.log, "not connected")
		w.notConnected(at, errLost)
	case 3:
		w.log = append(w.log, "failed")
		w.lost++
		v := hop.Verdict{Kind: hop.VerdictError, Number: 50001, Reason: "no_answer"}
		w.failed(peer.ErrorOf(v), v, w.take)
	default:
		var home *fleet.Server
		w.log = append(w.log, "moved")
		if n := w.random.IntN(w.servers + 2); n > 0 {
			home = testServers(colo, w.servers+1)[n-1]
			w.log = append(w.log, "to "+home.Node)
		}
		if home != nil && home.Node != at.server().Node {
			if w.moves[colo]++; w.moves[colo] > maxMoves+maxStandIns+2 { // the last of each visit is not followed
				return "more than six moves in " + colo
			}
		}
		w.moved(at, home, w.random.IntN(2) == 0, errMoved)
	}
	return ""
}

// A server that joins while a request is under way is asked when none of the others answers.
func TestServerThatJoinsIsAsked(t *testing.T) {
	servers := testServers("ams", 1)
	tr := newAttempts(testStops("ams"), func(string) []*fleet.Server { return servers }, queueDefault, testRetry)
	at := expectAttempt(t, tr, "ams-1")
	if tr.mayLose(&at, 9) {
		t.Error("the only server may be lost")
	}
	servers = testServers("ams", 2)
	if !tr.mayLose(&at, 9) {
		t.Error("the server may not be lost though another one has joined")
	}
	tr.serverLost(at, errLost, never)
	tr.notConnected(expectAttempt(t, tr, "ams-2", "ams-1"), errLost)
	if at, ok := tr.next(); ok {
		t.Errorf("asks %s a second time", at.server().Node)
	}
}
