package entry

import (
	"testing"
	"testing/synctest"
	"time"

	"colonnade/forwarding/peer"
	"colonnade/openai"
)

// A colo that falls silent has said what it said last, for a minute.
func TestFactsOfASilentColo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Entry{}
		table := tableOf(t, "key: colos/ams\n---\nkey: models/m\n")
		said := peer.ModelFacts{"m": openai.ModelFact{MaxModelLen: 7}}
		e.facts.byColo = map[string]coloFacts{"ams": {said, time.Now()}}
		for _, c := range []struct {
			after time.Duration
			want  int
		}{{0, 7}, {factsKept - time.Second, 7}, {2 * time.Second, 0}} {
			time.Sleep(c.after)
			e.facts.asked = time.Now() // no server is asked
			if got := e.modelFacts(table)["m"].MaxModelLen; got != c.want {
				t.Errorf("after another %v: %d, want %d", c.after, got, c.want)
			}
		}
	})
}

// A prompt is checked by the longest context that engines state, if all colos have answered lately and all of their engines have stated one.
func TestContextLengthOfEngines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Entry{}
		e.facts.wanted = make(chan struct{}, 1)
		table := tableOf(t, "key: colos/ams\n---\nkey: colos/fra\n---\nkey: models/m\n")
		type fact = openai.ModelFact
		f := func(want int, ams, fra fact) {
			t.Helper()
			e.facts.byColo = map[string]coloFacts{"ams": {peer.ModelFacts{"m": ams}, time.Now()}, "fra": {peer.ModelFacts{"m": fra}, time.Now()}}
			if got := e.contextLength(table, "m"); got != want {
				t.Errorf("%+v, %+v: %d, want %d", ams, fra, got, want)
			}
		}
		f(0, fact{}, fact{})
		f(9, fact{MaxModelLen: 5, Longest: 9}, fact{MaxModelLen: 7, Longest: 7})
		f(9, fact{MaxModelLen: 5, Longest: 9}, fact{}) // no engine of the model is there
		f(0, fact{MaxModelLen: 5, Longest: 9}, fact{Longest: -1})
		f(0, fact{MaxModelLen: 5}, fact{MaxModelLen: 7, Longest: 7}) // an older version
		f(7, fact{MaxModelLen: 7, Longest: 7}, fact{MaxModelLen: 7, Longest: 7})
		if len(e.facts.wanted) != 1 {
			t.Error("the facts are old, and nothing renews them")
		}
		time.Sleep(factsKept + time.Second)
		if got := e.contextLength(table, "m"); got != 0 {
			t.Errorf("after a minute: %d", got)
		}
		delete(e.facts.byColo, "fra")
		if got := e.contextLength(table, "m"); got != 0 {
			t.Errorf("of a colo that has not answered: %d", got)
		}
	})
}
