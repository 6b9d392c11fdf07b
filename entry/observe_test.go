package entry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/analytics/metrics"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/openai"
)

const twoColos = "key: models/m\npool: p\n---\nkey: colos/ams\nregion: eu\n---\nkey: colos/fra\nregion: eu\n" +
	"---\nkey: servers/ams/1\naddress: 127.0.0.1:1\nboot: x\n---\nkey: servers/fra/1\naddress: 127.0.0.1:2\nboot: x\n"

// allElsewhere is for an entry in whose process no server runs.
func allElsewhere(*fleet.Server) bool { return false }

// The number of slots of a pool in a colo is the one in its latest answer that has one.
func TestSlotsAreTheLatestReported(t *testing.T) {
	table := tableOf(t, twoColos)
	o := newObservations(func() *fleet.Table { return table }, allElsewhere)
	at := poolIn{"p", "ams"}
	f := func(load hop.Load, want int) {
		t.Helper()
		o.noteLoad(at, load, time.Now())
		if n := o.slotsIn(at); n != want {
			t.Errorf("after %v: %d slots, want %d", load, n, want)
		}
	}
	if n := o.slotsIn(at); n != 0 {
		t.Errorf("before any answer: %d slots", n)
	}
	f(hop.Load{Held: 3, Limit: 3, Queued: 9}, 3)
	f(hop.Load{Free: 1, Held: 3, Limit: 4}, 4)
	f(hop.Load{}, -1)
	if n := o.slotsIn(poolIn{"p", "fra"}); n != 0 {
		t.Errorf("of another colo: %d", n)
	}
}

// The kinds of a pool's engines are those that all its colos have reported last; an answer that does not name them changes nothing.
func TestEnginesAreTheLatestReported(t *testing.T) {
	table := tableOf(t, twoColos)
	o := newObservations(func() *fleet.Table { return table }, allElsewhere)
	tei, vllm := openai.Engines(0).With("tei"), openai.Engines(0).With("vllm")
	f := func(colo string, reported, want openai.Engines) {
		t.Helper()
		o.noteLoad(poolIn{"p", colo}, hop.Load{Engines: uint32(reported)}, time.Now())
		if got := o.engines("p"); got != want {
			t.Errorf("after %b of %s: %b, want %b", reported, colo, got, want)
		}
	}
	f("ams", 0, 0)
	f("ams", tei, tei)
	f("fra", vllm, tei|vllm)
	f("ams", 0, tei|vllm)
	f("ams", vllm, vllm)
	if got := o.engines("q"); got != 0 {
		t.Errorf("of another pool: %b", got)
	}
}

// Observations of colos and pools that leave the table are removed, and the others stay.
func TestObservationsFollowTheTable(t *testing.T) {
	table := tableOf(t, twoColos)
	e := &Entry{observed: newObservations(func() *fleet.Table { return table }, allElsewhere)}
	o := e.observed
	note := func() {
		for _, colo := range []string{"ams", "fra"} {
			o.noteLoad(poolIn{"p", colo}, hop.Load{Held: 3, Limit: 3, Queued: 9}, time.Now())
			o.noteUnresponsive(&fleet.Server{Colo: colo, Node: "1"}, errors.New("connection refused"), time.Now())
		}
	}
	f := func(want ...string) {
		t.Helper()
		var colos []string
		for _, u := range e.Unresponsive() {
			colos = append(colos, u.Colo)
		}
		if !slices.Equal(colos, want) {
			t.Errorf("got unresponsive %v, want those of %v", colos, want)
		}
	}
	loads := func(want ...string) {
		t.Helper()
		var reported []string
		for name, s := range o.states().byName {
			for pool, l := range *s.loads.Load() {
				reported = append(reported, name+"/"+pool)
				if l.fullAt.Load() == nil || l.limit.Load() != 3 {
					t.Errorf("%s/%s is not full", name, pool)
				}
			}
		}
		slices.Sort(reported)
		if !slices.Equal(reported, want) {
			t.Errorf("got loads of %v, want %v", reported, want)
		}
	}
	note()
	f("ams", "fra")
	loads("ams/p", "fra/p")
	table = tableOf(t, strings.ReplaceAll(twoColos, "s/fra", "s/lon"))
	f("ams")
	loads("ams/p")
	note() // of a request that began under the table before
	f("ams", "fra")
	loads("ams/p")
	for i := range maxUnresponsive + 9 { // that verdicts have named
		o.noteUnresponsive(&fleet.Server{Colo: "ams", Node: fmt.Sprint(i)}, errors.New("connection refused"), time.Now())
	}
	if n := len(e.Unresponsive()); n != maxUnresponsive {
		t.Errorf("%d servers are noted", n)
	}
	table = tableOf(t, "key: models/m\npool: q\n---\nkey: colos/ams\nregion: eu\n---\nkey: servers/ams/1\naddress: 127.0.0.1:1\nboot: x\n")
	o.noteUnresponsive(&fleet.Server{Colo: "ams", Node: "1"}, errors.New("connection refused"), time.Now())
	if e.Unresponsive(); len(o.unresponsive) != 1 {
		t.Errorf("unresponsive %v", o.unresponsive)
	}
	loads() // nothing of a pool that was deleted
}

// Every model of the table has a count; a deleted model has one until its last request has ended.
func TestActiveRequestsFollowTheTable(t *testing.T) {
	both := tableOf(t, "key: models/a\n---\nkey: models/b\n")
	one := tableOf(t, "key: models/a\n")
	active := newActivity()
	f := func(table *fleet.Table, want ...metrics.ModelState) {
		t.Helper()
		if got := active.states(table); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	f(both, metrics.ModelState{Model: "a"}, metrics.ModelState{Model: "b"})
	active.add("b", 1)
	f(both, metrics.ModelState{Model: "a"}, metrics.ModelState{Model: "b", Active: 1})
	f(one, metrics.ModelState{Model: "a"}, metrics.ModelState{Model: "b", Active: 1})
	active.add("b", -1)
	f(one, metrics.ModelState{Model: "a"})
}
