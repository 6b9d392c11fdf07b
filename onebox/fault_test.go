package onebox_test

import (
	"encoding/json"
	"strings"

	"colonnade/admission"
	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

// begin sends a chat completion over a connection of its own. lines are more header lines.
func (f *testFleet) begin(body string, lines ...string) *wire {
	f.t.Helper()
	w := dialWire(f.t, f.Entry.Address)
	w.post("/v1/chat/completions", body, lines...)
	return w
}

// ask sends a chat completion like begin and reads the whole answer.
func (f *testFleet) ask(body string, lines ...string) answer {
	f.t.Helper()
	w := f.begin(body, lines...)
	defer w.Close()
	return w.read().answer
}

// goAway closes the connection, or, every second time, resets it as the kernel does for a process that was killed.
func (w *wire) goAway(n int) {
	if n%2 == 0 {
		_ = w.SetLinger(0)
	}
	_ = w.Close()
}

// readUntil reads what comes until it holds so many times what is looked for.
func (w *wire) readUntil(want string, times int) {
	w.t.Helper()
	var got strings.Builder
	piece := make([]byte, 4<<10)
	for strings.Count(got.String(), want) < times {
		n, err := w.br.Read(piece)
		got.Write(piece[:n])
		if err != nil {
			w.t.Fatalf("after %.300q: %v", got.String(), err)
		}
	}
}

// pool asks the server of a colo how a pool is.
func (f *testFleet) pool(colo, name string) admission.State {
	f.t.Helper()
	for _, p := range f.pools(colo) {
		if p.Pool == name {
			return p
		}
	}
	f.t.Fatalf("no pool %s in %s", name, colo)
	return admission.State{}
}

// pools asks the server of a colo how its pools are.
func (f *testFleet) pools(colo string) []admission.State {
	f.t.Helper()
	for _, n := range f.Colos {
		if n.Colo != colo {
			continue
		}
		r, err := f.client.Get("http://" + n.Admin + "/debug/pools")
		if err != nil {
			f.t.Fatal(err)
		}
		defer r.Body.Close()
		var pools []admission.State
		if err := json.NewDecoder(r.Body).Decode(&pools); err != nil {
			f.t.Fatal(err)
		}
		return pools
	}
	f.t.Fatalf("no colo %s", colo)
	return nil
}

// inHand says how many requests engines have in hand.
func inHand(engines ...*simengine.Engine) (n int) {
	for _, e := range engines {
		s := e.Stats()
		n += s.Running + s.Waiting
	}
	return n
}

// ends returns the final events of one kind of the requests with a client's id.
func (f *testFleet) ends(kind analytics.Kind, clientID string) []analytics.Event {
	f.t.Helper()
	var found []analytics.Event
	for e, err := range journal.ReadDir(f.Entry.Events) {
		if err != nil {
			f.t.Fatal(err)
		}
		if e.Phase == analytics.PhaseEnd && e.Kind == kind && e.ClientRequestID == clientID {
			found = append(found, e)
		}
	}
	return found
}

// end waits for the one final event of a request.
func (f *testFleet) end(kind analytics.Kind, clientID string) analytics.Event {
	f.t.Helper()
	testkit.WaitFor(f.t, "the final event of "+clientID, func() bool { return len(f.ends(kind, clientID)) > 0 })
	found := f.ends(kind, clientID)
	if len(found) != 1 {
		f.t.Errorf("%s: %d final events of kind %s, want 1", clientID, len(found), kind)
	}
	return found[0]
}
