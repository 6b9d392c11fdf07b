package hops_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/liveness"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// The models of a farFleet, all of one pool. Requests for onward travel with the next stops of the plan, those for walk come back to the
// entry from each colo.
const (
	onward = "onward"
	walk   = "walk"
)

// both are the two ways in which a request comes from one colo to the next.
var both = []string{onward, walk}

// away is the round trip between the entry and each colo. It is longer by 10 ms than that between two colos, so that requests go on.
const away = 14 * time.Millisecond

// farFleet has the colos ams, fra and iad, which plans name in this order. They are next to each other and far from the entry, and each way
// leads through a proxy.
type farFleet struct {
	*fleettest.Fleet
	served string // the id of a request that was served; requests past the entry have the same, since the oracle wants an event for each
}

// farConfig is the configuration of a farFleet.
func farConfig(engine simengine.Config) onebox.Config {
	engine.Record = cmp.Or(engine.Record, 1000)
	colos := []string{"ams", "fra", "iad"}
	latency := onebox.Latency{}
	for i, colo := range colos {
		latency[onebox.Pair{onebox.EntryPlace, colo}] = away
		for _, other := range colos[i+1:] {
			latency[onebox.Pair{colo, other}] = 0
		}
	}
	return onebox.Config{Colos: colos, Engine: engine, Latency: latency, Liveness: patience()}
}

// patience returns the times after which a server is silent. On a busy machine, a live server may send nothing for seconds. A probe waits for
// long: if its connection stalls, it is answered when that ends, and no test waits for the next one.
func patience() liveness.Timings {
	t := liveness.DefaultTimings()
	t.GiveUpAfter *= time.Duration(testkit.AtScale(5, 1))
	t.ProbeTimeout = testkit.Timeout
	return t
}

// farDocuments are the documents of a farFleet. pool is the rest of the pool's.
func farDocuments(pool string) string {
	var docs strings.Builder
	fmt.Fprintf(&docs, "key: pools/demo\n%s\n", pool)
	for _, colo := range []string{"ams", "fra", "iad"} {
		fmt.Fprintf(&docs, "---\nkey: colos/%s\nregion: near\nposition: {lat: 50, lon: 5}\n", colo)
		fmt.Fprintf(&docs, "---\nkey: models/only-%[1]s\npool: demo\nupstream_name: demo-embed\nrouting: {steps: [{colos: [%[1]s]}]}\n", colo)
	}
	return docs.String() + modelDocument(onward, "") + modelDocument(walk, "retry: {forward_below: 0}\n")
}

// modelDocument returns the document of a model whose plans have all colos in order.
func modelDocument(name, rest string) string {
	return fmt.Sprintf("---\nkey: models/%s\npool: demo\nupstream_name: demo-chat\nrouting: {steps: [{colos: [ams]}, {colos: [fra]}, {colos: [iad]}]}\n%s", name, rest)
}

// noSpill has requests wait only where they must: at the last try. No test takes as long as they may wait.
const noSpill = "queue: {limit: 100, per_account: 100, max_wait: 10m, spill_wait: 0s}"

// startFar runs a farFleet, whose end the oracle checks.
func startFar(t testing.TB, engine simengine.Config, pool, more string) *farFleet {
	t.Helper()
	f := &farFleet{Fleet: fleettest.Start(t, farConfig(engine), farDocuments(pool)+more)}
	f.WatchShared(48)
	f.served = f.Chat(chat(onward, 1, false)).Header.Get("x-request-id")
	return f
}

// chat is the body of a chat completion.
func chat(model string, tokens int, stream bool) string {
	return fmt.Sprintf(`{"model":%q,"stream":%v,"max_tokens":%d,"messages":[{"role":"user","content":"hello"}]}`, model, stream, tokens)
}

// beginIn sends a request to the server of a colo, past the entry and the proxies.
func (f *farFleet) beginIn(colo, body string) *wiretest.Conn {
	f.T.Helper()
	node := f.Server(colo + "-1")
	token := hop.Token{
		RequestID: f.served, Source: "entry-1", Account: "open", Weight: 1, Priority: "standard", Model: "only-" + colo,
		Wait: hop.WaitFull, Total: hop.Millis(time.Hour), // longer than any test, so that no slot that a test has filled becomes free
	}
	to := hop.Binding{Audience: node.Node, Method: "POST", Target: fleettest.ChatPath, AppendHeader: fleettest.JSONHeader, Body: []byte(body)}
	c := wiretest.Dial(f.T, node.Address)
	c.Post(fleettest.ChatPath, body, hop.HeaderToken+": "+f.SignHop(token, to, time.Now()))
	return c
}

// fill takes all slots of colos with answers that take longer than any test, until they are released. They send nothing meanwhile, so that they
// cost no processor time, and end for no client that does not read. The engines must be steady ones.
func (f *farFleet) fill(colos ...string) (release func()) {
	f.T.Helper()
	var held []*wiretest.Conn
	for _, colo := range colos {
		for range f.Pool(colo, "demo").Free {
			held = append(held, f.beginIn(colo, chat("only-"+colo, 1<<20, false)))
		}
		testkit.WaitFor(f.T, "the slots of "+colo+" to be taken", func() bool {
			p := f.Pool(colo, "demo")
			return p.Free == 0 && f.inFlight(colo) == p.Held
		})
	}
	release = func() {
		f.T.Helper()
		for _, c := range held {
			c.Close()
		}
		testkit.WaitFor(f.T, "the slots to be free", func() bool { return f.allFree(colos...) })
	}
	return release
}

// allFree reports whether no permit of the colos is held, and no request waits for one.
func (f *farFleet) allFree(colos ...string) bool {
	return !slices.ContainsFunc(colos, func(colo string) bool {
		p := f.Pool(colo, "demo")
		return p.Held > 0 || p.Queued > 0 || f.inFlight(colo) > 0
	})
}

// inFlight returns how many requests the engines of a colo have.
func (f *farFleet) inFlight(colo string) (n int) {
	for _, e := range f.Engines {
		if e.Colo == colo {
			n += fleettest.InFlight(e.Simulated)
		}
	}
	return n
}

// freeSoon expects that no permit of the colos is held 500 ms from now.
func (f *farFleet) freeSoon(colos ...string) {
	f.T.Helper()
	testkit.Within(f.T, 500*time.Millisecond, fmt.Sprintf("all permits of %v are free", colos), func() bool { return f.allFree(colos...) })
}

// events returns the final events of a request by its client's id, each as "kind node outcome", sorted.
func (f *farFleet) events(clientID string) (found []string, events []analytics.Event) {
	f.T.Helper()
	for e, err := range journal.ReadDir(f.Entry.DataDir) {
		if err != nil {
			f.T.Fatal(err)
		}
		if e.Phase == analytics.PhaseEnd && e.ClientRequestID == clientID {
			found = append(found, fmt.Sprintf("%s %s %s", e.Kind, e.Node, e.Outcome))
			events = append(events, e)
		}
	}
	slices.Sort(found)
	return found, events
}

// expectEvents waits for the final events of a request, which must be these.
func (f *farFleet) expectEvents(clientID string, want ...string) []analytics.Event {
	f.T.Helper()
	slices.Sort(want)
	var got []string
	var events []analytics.Event
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if got, events = f.events(clientID); len(got) >= len(want) {
			break
		}
	}
	if !slices.Equal(got, want) {
		f.T.Errorf("%s: the events are %q, want %q", clientID, got, want)
	}
	return events
}

// received returns the colos whose engines got a request, each as often as it came.
func (f *farFleet) received(requestID string) (colos []string) {
	for _, e := range f.Engines {
		for _, r := range e.Simulated.Received() {
			if r.Header.Get("x-request-id") == requestID {
				colos = append(colos, e.Colo)
			}
		}
	}
	return colos
}

// expectServed expects an answer in full from the last colo of a path, and that the engines saw the request once.
func (f *farFleet) expectServed(a wiretest.Response, path string) {
	f.T.Helper()
	by := path[strings.LastIndexByte(path, ' ')+1:]
	gotPath := cmp.Or(a.Header.Get("x-colonnade-colo-path"), a.Header.Get("x-colonnade-colo"))
	if a.Status != 200 || a.Err != nil || !a.Complete() || a.Header.Get("x-colonnade-colo") != by || gotPath != path || a.Header.Get("x-colonnade-attempts") != "1" {
		f.T.Errorf("answer %d %v by %s after %s, attempts %s: %.300q; want %s to serve it", a.Status, a.Err, a.Header.Get("x-colonnade-colo"), gotPath,
			a.Header.Get("x-colonnade-attempts"), a.Body, by)
	}
	if got := f.received(a.Header.Get("x-request-id")); !slices.Equal(got, []string{by}) {
		f.T.Errorf("the engines of %v got the request", got)
	}
}

// warm has the pools of colos measure how fast they serve.
func (f *farFleet) warm(colos ...string) {
	f.T.Helper()
	var all sync.WaitGroup
	for _, colo := range colos {
		all.Go(func() {
			for range 16 {
				if a := f.Chat(chat("only-"+colo, 1, false)); a.Status != 200 {
					f.T.Errorf("warming %s: %d %.300q", colo, a.Status, a.Body)
				}
			}
		})
	}
	all.Wait()
}

// enqueue adds requests to the queue of a colo whose slots are taken.
func (f *farFleet) enqueue(colo string, n int) (waiting []*wiretest.Conn) {
	f.T.Helper()
	n += f.Pool(colo, "demo").Queued
	for range n {
		waiting = append(waiting, f.beginIn(colo, chat("only-"+colo, 1, false)))
	}
	testkit.WaitFor(f.T, "the requests to wait in "+colo, func() bool { return f.Pool(colo, "demo").Queued == n })
	return waiting
}

// refusals returns how many requests the pool of each colo has refused, in the order ams, fra, iad.
func (f *farFleet) refusals() (all [3]uint64) {
	f.T.Helper()
	for i, colo := range []string{"ams", "fra", "iad"} {
		for _, n := range f.Pool(colo, "demo").Refused {
			all[i] += n
		}
	}
	return all
}

// awaitWay waits until requests for a model come over ams to fra, as they do while neither server counts as silent. ams must be full.
func (f *farFleet) awaitWay(model string) {
	f.T.Helper()
	testkit.WaitFor(f.T, "requests to come over ams to fra", func() bool {
		before := f.forwards()
		a := f.RawChat(chat(model, 1, false))
		return a.Header.Get("x-colonnade-colo-path") == "ams, fra" && (model != onward || f.forwards() > before)
	})
}

// awaitWayToQueue is awaitWay with a full fra, whose queue must be empty.
func (f *farFleet) awaitWayToQueue(model string) {
	f.T.Helper()
	testkit.WaitFor(f.T, "requests to come over ams to the queue of fra", func() bool {
		before := f.forwards()
		c := f.BeginChat(chat(model, 1, false))
		testkit.WaitFor(f.T, "a request to wait in fra", func() bool { return f.Pool("fra", "demo").Queued == 1 })
		c.Close()
		testkit.WaitFor(f.T, "the queue of fra to be empty", func() bool { return f.Pool("fra", "demo").Queued == 0 })
		return model != onward || f.forwards() > before
	})
}

// forwards returns how many requests the server of ams has begun to forward.
func (f *farFleet) forwards() (n int) {
	for e, err := range journal.ReadDir(f.Entry.DataDir) {
		if err == nil && e.Kind == analytics.KindForward && e.Node == "ams-1" && e.Phase == analytics.PhaseBegin {
			n++
		}
	}
	return n
}
