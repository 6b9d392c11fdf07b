package admission_test

import (
	"testing"
	"testing/synctest"
	"time"

	"colonnade/admission"
)

// An engine that loads adapters by itself gets requests for those that neither its document nor its list names; what it says itself counts.
func TestEngineThatLoadsAdaptersGetsRequestsForAll(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "loads") + "adapters: [other-v1]\nload_adapters: true\n---\n" + endpoints("a", 1, "none") + "adapters: []\n---\n" +
			endpoints("a", 1, "lists", "unheard") + "---\nkey: models/base\npool: a\n---\nkey: models/sql\npool: a\nadapter: sql-v1\n")
		synctest.Wait()
		s.wantAvoided("sql", "by the documents", "none")
		if !s.WantsModels("http://loads:8000") {
			t.Error("the list of the engine that loads adapters is not wanted")
		}
		s.NoteModels("http://loads:8000", []string{"base", "other-v1"})
		s.NoteModels("http://lists:8000", []string{"base"})
		s.wantAvoided("sql", "when an engine may load it, and the list of another lacks it", "lists", "none")
		s.NoteModels("http://lists:8000", []string{"base", "sql-v1"})
		s.wantAvoided("sql", "when one lists it", "none")
		s.pool("a").Lacks(s.endpoint("loads"), admission.Lack{Model: "sql"}, "404")
		s.wantAvoided("sql", "when the engine could not load it", "loads", "none")
		time.Sleep(time.Second)
		s.wantAvoided("sql", "a second later", "none")
		s.put(endpoints("a", 1, "loads") + "adapters: [other-v1]\n")
		s.wantAvoided("sql", "when its document does not say any more that it loads adapters", "loads", "none")
	})
}
