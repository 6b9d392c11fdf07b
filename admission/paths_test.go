package admission_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"colonnade/admission"
	"colonnade/fleet"
)

// Endpoints that cannot have a path get no requests for it, from the table on that says so; others are as ever.
func TestPathsOfSomeEndpoints(t *testing.T) {
	play(t, func(s *scenario) {
		s.SetPathRule(func(path string, untranslated bool) func(*fleet.Endpoint) bool {
			if !strings.HasPrefix(path, "/api/") {
				return nil
			}
			return func(e *fleet.Endpoint) bool { return e.Engine == "ollama" && !untranslated || e.Paths[path] != "" }
		})
		s.put(endpoints("a", 1, "one", "two") + twoModels)
		synctest.Wait()
		want := func(path, model string, one, two bool) {
			t.Helper()
			if got1, got2 := s.hasIt("one", model, path), s.hasIt("two", model, path); got1 != one || got2 != two {
				t.Errorf("%s: %v and %v, want %v and %v", path, got1, got2, one, two)
			}
			l, _, ok := s.pool("a").LackedByAll(admission.Need{Model: model, Path: path})
			if ok != (!one && !two) || ok && l.Path != path {
				t.Errorf("%s: lacked by all: %+v, %v", path, l, ok)
			}
		}
		want("/api/chat", "base", false, false)
		want(chatPath, "base", true, true)
		s.put("key: endpoints/ams/one\nurl: http://one:8000\npool: a\nengine: ollama\nconcurrency: 1\n")
		synctest.Wait()
		want("/api/chat", "base", true, false)
		s.put("key: endpoints/ams/two\nurl: http://two:8000\npool: a\npaths: {/api/chat: /v2/chat}\nconcurrency: 1\n")
		synctest.Wait()
		want("/api/chat", "base", true, true)
		want("/api/embed", "base", true, false)
		s.put("key: endpoints/ams/two\nurl: http://two:8000\npool: a\npaths: {/api/chat: /v2/chat}\nexternal: true\nconcurrency: 1\n")
		synctest.Wait()
		has := func(id string, n admission.Need) bool { return s.pool("a").Has(s.endpoint(id), n) }
		if n := (admission.Need{Model: "base", Path: "/api/chat", Untranslated: true}); has("one", n) || !has("two", n) {
			t.Error("a request that cannot be translated goes to an engine that needs that")
		}
		if n := (admission.Need{Model: "base", Path: chatPath, Internal: true}); !has("one", n) || has("two", n) {
			t.Error("a request that must stay inside goes to an external endpoint")
		}
		if lacks := s.pool("a").DetailedStats(0).Lacks; len(lacks) > 0 {
			t.Errorf("operators see %+v, which their documents say", lacks)
		}
	})
}
