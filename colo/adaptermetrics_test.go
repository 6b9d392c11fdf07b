package colo

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"colonnade/internal/simengine"
)

// The metrics of an engine of kind vllm are read with its health checks: requests for an adapter go where they show it. Engines without such
// metrics, or of another kind, stay up.
func TestAdaptersAreReadFromMetrics(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	documents := "key: pools/e\n---\nkey: models/sql\npool: e\nadapter: sql-v1\n"
	engines := map[string]*simengine.Engine{}
	for _, id := range []string{"shows", "lists", "other"} {
		e := simengine.New(simengine.Config{Slots: 2, TTFT: time.Millisecond, ITL: time.Millisecond, Models: []string{"base"}})
		server := httptest.NewServer(e)
		t.Cleanup(func() { e.Close(); server.Close() })
		engines[id] = e
		kind := map[string]string{"other": "openai"}[id]
		if kind == "" {
			kind = "vllm"
		}
		documents += fmt.Sprintf("---\nkey: endpoints/ams/%s\nurl: %s\npool: e\nengine: %s\nconcurrency: 2\nhealth: {path: /health, interval: 50ms}\n", id, server.URL, kind)
	}
	engines["shows"].RunAdapters("sql-v1")
	engines["lists"].LoadAdapters("sql-v1")
	engines["other"].RunAdapters("sql-v1") // which is not read
	s.apply(documents)
	s.until("only the engine of another kind to be left out", func() bool {
		lacks := s.pool("e").Lacks
		return len(lacks) == 1 && lacks[0].Model == "sql" && idOf(s, lacks[0].URL) == "other"
	})
	for _, e := range s.pool("e").Endpoints {
		if e.State != "up" {
			t.Errorf("%s is %s", e.ID, e.State)
		}
	}
	engines["shows"].RunAdapters()
	s.until("the engine without it to be left out", func() bool { return len(s.pool("e").Lacks) == 2 })
}

func idOf(s *testServer, url string) string {
	for _, e := range s.pool("e").Endpoints {
		if e.URL == url {
			return e.ID
		}
	}
	return ""
}
