package node_test

import (
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// A colo server writes the incidents that workers report, and after its restart the same events again.
func TestIncidentsBecomeEvents(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	at := time.Now().UTC().Truncate(time.Second)
	put := func(number string) {
		t.Helper()
		document := `{"colo":"ams","boot":"1","engine":{"endpoint":"e","url":"http://127.0.0.1:1","state":"backoff"},"incidents":[` +
			`{"number":` + number + `,"time":"` + at.Format(time.RFC3339) + `","kind":"engine_exit","detail":"exit status ` + number + `"}]}`
		if _, err := s.Client(t).Put(t.Context(), node.Prefix+"workers/w", document); err != nil {
			t.Fatal(err)
		}
	}
	put("1")
	c := config(t, s, "ams-1")
	events := func() (found []analytics.Event) {
		for e, err := range journal.ReadDir(c.DataDir) {
			if err == nil && e.Kind == analytics.KindEngine {
				found = append(found, e)
			}
		}
		return found
	}
	await := func(n int) []analytics.Event {
		t.Helper()
		testkit.WaitFor(t, "the events", func() bool { return len(events()) == n })
		return events()
	}
	_, stop := startColo(t, c)
	await(1)
	put("2")
	await(2)
	stop()
	_, stop = startColo(t, c)
	got := await(3)
	stop()
	if got[2].EventID != got[1].EventID || !got[2].Time.Equal(at) || got[0].EventID == got[1].EventID || got[2].Detail != "exit status 2" || got[2].Node != "ams-1" {
		t.Errorf("got %+v", got)
	}
}
