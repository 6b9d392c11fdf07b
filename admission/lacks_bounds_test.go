package admission_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/admission"
)

const embeddings = "/v1/embeddings"

// lose makes an engine say so often, each time that it is asked again, that it lacks something, that it is not asked for a minute.
func (s *scenario) lose(id string, l admission.Lack) {
	s.Helper()
	for range 7 {
		s.pool("a").Lacks(s.endpoint(id), l, "404")
		if s.hasIt(id, l.Model, l.Path) {
			s.Errorf("%s is asked for what it has just said that it lacks", id)
		}
		time.Sleep(time.Minute)
	}
	s.pool("a").Lacks(s.endpoint(id), l, "404")
}

// hasIt reports whether an endpoint of the pool a, by its ID, gets requests for a model at a path.
func (s *scenario) hasIt(id, model, path string) bool {
	return s.pool("a").Has(s.endpoint(id), admission.Need{Model: model, Path: path})
}

// However often an engine has said that it lacks a model, it is asked again after a minute.
func TestLackLastsForAMinuteAtMost(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one", "two") + twoModels)
		synctest.Wait()
		for range 3 {
			s.lose("one", admission.Lack{Model: "sql"})
			time.Sleep(time.Minute - time.Millisecond)
			s.wantAvoided("sql", "before the minute is over", "one")
			time.Sleep(time.Millisecond)
			s.wantAvoided("sql", "after a minute")
		}
	})
}

// A lack outlasts lists and changes that say nothing about it. It ends with a list that has the model, and when the engine has been out.
func TestLackOutlastsOtherChanges(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "two", "one") + "health: {interval: 100ms, timeout: 50ms}\n" + twoModels)
		synctest.Wait()
		s.lose("one", admission.Lack{Model: "sql"})
		s.NoteModels("http://one:8000", []string{"base"})
		s.wantAvoided("sql", "after a list without the model", "one")
		s.put("key: models/third\npool: a\n")
		s.wantAvoided("sql", "after a change of another model", "one")
		s.put("key: models/sql\npool: a\nupstream_name: sql-v2\n")
		s.wantAvoided("sql", "after a change of the name by which engines are asked for it")
		s.lose("one", admission.Lack{Model: "sql"})
		s.setHealth("one", errors.New("refused"))
		time.Sleep(5 * time.Second)
		s.setHealth("one", nil)
		time.Sleep(5 * time.Second)
		s.wantAvoided("sql", "after a restart")
		s.pool("a").Lacks(s.endpoint("one"), admission.Lack{Model: "sql"}, "404")
		time.Sleep(time.Second)
		s.wantAvoided("sql", "a second after the first lack since the restart")
	})
}

// A restarted engine may have other models: its list of before says nothing about it.
func TestRestartForgetsTheListOfModels(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "two", "one") + "health: {interval: 100ms, timeout: 50ms}\n---\nkey: models/sql\npool: a\nadapter: sql-v1\nupstream_name: sql\n")
		synctest.Wait()
		s.NoteModels("http://one:8000", []string{"base"})
		s.NoteModels("http://two:8000", []string{"sql-v1"}) // the name of the adapter counts, beside that of the model
		s.wantAvoided("sql", "while one of two lists the adapter", "one")
		s.setHealth("one", errors.New("refused"))
		time.Sleep(5 * time.Second)
		s.setHealth("one", nil)
		time.Sleep(5 * time.Second)
		s.wantAvoided("sql", "after a restart of the other")
	})
}

// The list of models of an engine is wanted only where it decides something.
func TestListOfModelsIsWanted(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "said") + "adapters: [sql-v1]\n---\n" + endpoints("a", 1, "two") + "---\nkey: models/sql\npool: a\nadapter: sql-v1\n")
		synctest.Wait()
		want := func(id string, want bool) {
			t.Helper()
			if got := s.WantsModels("http://" + id + ":8000"); got != want {
				t.Errorf("the list of %s is wanted: %v", id, got)
			}
		}
		want("two", true)
		want("said", false) // its document says it
		s.pool("a").Lacks(s.endpoint("said"), admission.Lack{Path: embeddings}, "404")
		want("said", false) // a list of models says nothing about paths
		s.pool("a").Lacks(s.endpoint("said"), admission.Lack{Model: "sql"}, "404")
		want("said", true)
	})
}

// Where engines lack different things, clients hear of the model; the time after which it is worth asking again is the least of all.
func TestTimeUntilALackIsOver(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one", "two") + twoModels)
		synctest.Wait()
		s.lose("one", admission.Lack{Path: chatPath})
		s.pool("a").Lacks(s.endpoint("two"), admission.Lack{Model: "sql"}, "404")
		if l, again, ok := s.pool("a").LackedByAll(admission.Need{Model: "sql", Path: chatPath}); !ok || l.Model != "sql" || again != time.Second {
			t.Errorf("one lacks the path, the other one the model: %v, %v, %v", l, again, ok)
		}
		s.pool("a").Lacks(s.endpoint("two"), admission.Lack{Path: chatPath}, "404")
		if l, again, ok := s.pool("a").LackedByAll(admission.Need{Model: "sql", Path: chatPath}); !ok || l.Path != chatPath || again != time.Second {
			t.Errorf("both lack the path: %v, %v, %v", l, again, ok)
		}
		urls := []string{}
		for _, l := range s.pool("a").Stats().Lacks {
			urls = append(urls, l.URL+" "+l.Model+l.Path)
		}
		if want := []string{"http://one:8000 " + chatPath, "http://two:8000 " + chatPath, "http://two:8000 sql"}; !slices.Equal(urls, want) {
			t.Errorf("reported %q, want %q", urls, want)
		}
	})
}

// Each engine is asked again when its own time is over, however long the others are not.
func TestEachEngineIsAskedAgainInItsTime(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one", "two") + twoModels)
		synctest.Wait()
		for i := range 8 {
			path := fmt.Sprintf("/v1/p%d", i)
			s.lose("one", admission.Lack{Path: path})
			s.pool("a").Lacks(s.endpoint("two"), admission.Lack{Path: path}, "404")
			time.Sleep(time.Second)
			if !s.hasIt("two", "base", path) || s.hasIt("one", "base", path) {
				t.Errorf("%s: two is asked: %v; one: %v", path, s.hasIt("two", "base", path), s.hasIt("one", "base", path))
			}
		}
	})
}
