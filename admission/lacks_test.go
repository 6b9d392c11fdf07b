package admission_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/admission"
)

const chatPath = "/v1/chat/completions"

// wantAvoided expects that requests of a model do not go to these endpoints, by ID, of the pool a.
func (s *scenario) wantAvoided(model, when string, ids ...string) {
	s.Helper()
	excluded := s.pool("a").Excluded(admission.Need{Model: model, Path: chatPath})
	got := append(excluded[0].IDs(), excluded[1].IDs()...)
	want := make([]string, 0, len(ids))
	for _, id := range ids {
		want = append(want, "http://"+id+":8000")
	}
	slices.Sort(got)
	got = slices.Compact(got)
	if !slices.Equal(got, want) && len(got)+len(want) > 0 {
		s.Errorf("%s: requests for %s avoid %v, want %v", when, model, got, want)
	}
}

const twoModels = "---\nkey: models/base\npool: a\n---\nkey: models/sql\npool: a\n"

// An engine that does not have a model gets no requests for it, for a time that doubles, and all other requests; it is not ejected.
func TestEngineWithoutAModelKeepsTheOthers(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one", "two") + twoModels)
		synctest.Wait()
		for _, out := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			for range 2 * admission.FailuresToEject {
				s.pool("a").Lacks(s.endpoint("one"), admission.Lack{Model: "sql"}, "404: no such model")
			}
			s.wantAvoided("sql", "when the engine has said so", "one")
			s.wantAvoided("base", "when the engine has said so of another model")
			s.wantLoad("a", 2, 2, "the engine is up")
			time.Sleep(out - time.Millisecond)
			s.wantAvoided("sql", "before the time is over", "one")
			time.Sleep(time.Millisecond)
			s.wantAvoided("sql", "after the time")
		}
		s.pool("a").Serves(s.endpoint("one"), "sql", chatPath)
		s.pool("a").Lacks(s.endpoint("one"), admission.Lack{Model: "sql"}, "404")
		time.Sleep(time.Second)
		s.wantAvoided("sql", "a second after it was missing for the first time since it was served")
	})
}

// A lack is forgotten when the engine lists the model, when the engine has been out, and when a document changes.
func TestWhatAnEngineLacksIsForgotten(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one", "two") + twoModels)
		synctest.Wait()
		lose := func() {
			t.Helper()
			s.pool("a").Lacks(s.endpoint("one"), admission.Lack{Model: "sql"}, "404")
			s.pool("a").Lacks(s.endpoint("one"), admission.Lack{Path: chatPath}, "404")
			s.wantAvoided("sql", "while it lacks the model", "one")
			s.wantAvoided("base", "while it lacks the path", "one")
			if !s.WantsModels("http://one:8000") || s.WantsModels("http://two:8000") {
				t.Error("the list of the engine without the model is wanted, and no other")
			}
		}
		lose()
		s.NoteModels("http://one:8000", []string{"base"})
		s.wantAvoided("sql", "after a list without the model", "one")
		s.pool("a").Serves(s.endpoint("one"), "base", chatPath)
		s.NoteModels("http://one:8000", []string{"base", "sql"})
		s.wantAvoided("sql", "after a list with the model")
		lose()
		s.setHealth("one", errors.New("refused"))
		time.Sleep(time.Minute)
		s.setHealth("one", nil)
		time.Sleep(time.Minute)
		s.wantAvoided("base", "after a restart")
		lose()
		s.put(endpoints("a", 1, "one") + "names: {sql: sql-v2}\n")
		s.wantAvoided("sql", "after its document has changed")
		lose()
		s.put("key: models/sql\npool: a\nupstream_name: sql-v3\n")
		s.wantAvoided("sql", "after the model's document has changed: only the path is missing", "one")
	})
}

// A model with an adapter goes to the endpoints whose documents name it, and to those that list it; while none does, to all that do not
// say what they have.
func TestAdaptersDecideWhereRequestsGo(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "said") + "adapters: [sql-v1]\n---\n" + endpoints("a", 1, "none") + "adapters: []\n---\n" + endpoints("a", 1, "three", "two") +
			"---\nkey: models/base\npool: a\n---\nkey: models/sql\npool: a\nadapter: sql-v1\n---\nkey: models/tables\npool: a\nadapter: tables-v1\n")
		synctest.Wait()
		s.wantAvoided("base", "a model without an adapter")
		s.wantAvoided("sql", "by the documents", "none")
		s.wantAvoided("tables", "by the documents", "none", "said")
		for _, id := range []string{"two", "three"} {
			if !s.WantsModels("http://" + id + ":8000") {
				t.Errorf("the list of %s is not wanted", id)
			}
			s.NoteModels("http://"+id+":8000", []string{"base"})
		}
		s.wantAvoided("sql", "when the others do not list it", "none", "three", "two")
		s.wantAvoided("tables", "while none lists it", "none", "said")
		s.NoteModels("http://two:8000", []string{"base", "tables-v1"})
		s.wantAvoided("tables", "when one lists it", "none", "said", "three")
		if l, _, ok := s.pool("a").LackedByAll(admission.Need{Model: "tables", Path: chatPath}); ok {
			t.Errorf("an engine has it, but all lack %v", l)
		}
		s.pool("a").Lacks(s.endpoint("two"), admission.Lack{Model: "tables"}, "404")
		if l, again, ok := s.pool("a").LackedByAll(admission.Need{Model: "tables", Path: chatPath}); !ok || l.Model != "tables" || again != time.Second {
			t.Errorf("no engine has it: %v, %v, %v", l, again, ok)
		}
		lacks := s.pool("a").Stats().Lacks
		if len(lacks) != 7 || lacks[0].URL != "http://none:8000" || lacks[0].Model != "sql" || lacks[0].AgainSeconds != nil || lacks[0].Reason == "" {
			t.Errorf("reported: %+v", lacks)
		}
	})
}

// A path that no engine has is reported as such, also where engines lack the model as well.
func TestPathThatAllLack(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one", "two") + twoModels)
		synctest.Wait()
		s.pool("a").Lacks(s.endpoint("one"), admission.Lack{Path: chatPath}, "404")
		if _, _, ok := s.pool("a").LackedByAll(admission.Need{Model: "base", Path: chatPath}); ok {
			t.Error("one engine has said nothing")
		}
		s.pool("a").Lacks(s.endpoint("two"), admission.Lack{Path: chatPath}, "404")
		s.pool("a").Lacks(s.endpoint("two"), admission.Lack{Model: "sql"}, "404")
		for _, model := range []string{"base", "sql"} {
			if l, _, ok := s.pool("a").LackedByAll(admission.Need{Model: model, Path: chatPath}); !ok || l.Path != chatPath {
				t.Errorf("%s: %v %v", model, l, ok)
			}
		}
		if _, _, ok := s.pool("a").LackedByAll(admission.Need{Model: "base", Path: "/v1/embeddings"}); ok {
			t.Error("another path")
		}
	})
}

// A table publishes what engines lack only for the pools whose models or endpoints it changes, and a list only if it says something new.
func TestWhatDidNotChangeIsNotPublishedAgain(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one") + "adapters: []\n---\n" + endpoints("a", 1, "two") + "---\n" + endpoints("b", 1, "three") +
			"---\nkey: models/sql\npool: a\nadapter: sql-v1\n---\nkey: models/base\npool: b\n")
		synctest.Wait()
		s.NoteModels("http://two:8000", []string{"base", "sql-v1"})
		before := s.pool("a").PublishedLacks()
		step := func(what string, published bool, do func()) {
			t.Helper()
			do()
			if again := s.pool("a").PublishedLacks(); (again != before) != published {
				t.Errorf("%s: published: %v, want %v", what, again != before, published)
			}
			before = s.pool("a").PublishedLacks()
		}
		step("a model of another pool", false, func() { s.put("key: models/base\npool: b\nupstream_name: v2\n") })
		step("an endpoint of another pool", false, func() { s.put(endpoints("b", 2, "three")) })
		step("the same list", false, func() { s.NoteModels("http://two:8000", []string{"base", "sql-v1"}) })
		step("another list", true, func() { s.NoteModels("http://two:8000", []string{"base"}) })
		step("an endpoint's adapters", true, func() { s.put(endpoints("a", 1, "one") + "adapters: [sql-v1]\n") })
		s.wantAvoided("sql", "when only the other has the adapter", "two")
		step("the model's adapter", true, func() { s.put("key: models/sql\npool: a\nadapter: sql-v2\n") })
		s.wantAvoided("sql", "when the one that said what it has has not the adapter", "one")
		step("an endpoint less", true, func() { s.remove("endpoints/ams/one") })
		s.wantAvoided("sql", "when only one that said nothing is left")
		step("an endpoint from another pool", true, func() { s.put(endpoints("a", 1, "three") + "adapters: [sql-v2]\n") })
		s.wantAvoided("sql", "when one has come that has it", "two")
	})
}

// An adapter that an engine's metrics show in use is loaded there, also if its list lacks it; its own words weigh more.
func TestAdapterInUseIsLoaded(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one", "three", "two") + "---\nkey: models/base\npool: a\n---\nkey: models/sql\npool: a\nadapter: sql-v1\n")
		synctest.Wait()
		for _, id := range []string{"one", "two", "three"} {
			s.NoteModels("http://"+id+":8000", []string{"base"})
		}
		s.wantAvoided("sql", "while none is known to have it")
		s.NoteAdapters("http://one:8000", []string{"sql-v1"})
		s.wantAvoided("sql", "when one has it in use", "three", "two")
		s.NoteModels("http://two:8000", []string{"base", "sql-v1"})
		s.wantAvoided("sql", "when another lists it", "three")
		s.pool("a").Lacks(s.endpoint("one"), admission.Lack{Model: "sql"}, "404")
		s.NoteAdapters("http://one:8000", []string{"other", "sql-v1"})
		s.wantAvoided("sql", "when the one with old metrics says that it lacks it", "one", "three")
		time.Sleep(time.Second)
		s.wantAvoided("sql", "when that is over", "three")
		s.NoteAdapters("http://one:8000", nil)
		s.wantAvoided("sql", "when it is in use no more", "one", "three")
		s.put(endpoints("a", 1, "one") + "adapters: []\n")
		s.NoteAdapters("http://one:8000", []string{"sql-v1"})
		s.wantAvoided("sql", "when its document says that it has none", "one", "three")
	})
}
