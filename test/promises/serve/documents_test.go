package serve_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
)

// No request fails while the documents change: limits, an engine that comes and goes, an alias, a model. A file that is not good changes
// nothing, not even what stands beside it.
func TestDocumentsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	c := inTest(fleettest.QuickEngine(4))
	c.Engines = 2
	f := fleettest.Start(t, c, "")
	f.WatchShared(40)
	load := f.Drive(6, fleettest.AlternatingBodies("default"))
	file := filepath.Join(f.Documents, "change.yaml")
	write := func(documents string) {
		t.Helper()
		next := filepath.Join(f.Documents, ".next")
		if err := os.WriteFile(next, []byte(documents), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
	}
	late := `{"model":"late","max_tokens":1,"messages":[]}`
	for round := range testkit.AtScale(1, 50) {
		limit := 50 + round
		f.ApplyAndWait(fmt.Sprintf("key: pools/demo\nqueue: {limit: %d}", limit), func() bool { return f.Pool("ams", "demo").Queue.Limit == limit })
		load.WaitServed(5)
		f.ApplyAndWait(f.EndpointDocument("sim-2", 1, "other", "concurrency: 4")[len("---\n"):], func() bool { return f.Pool("ams", "demo").Limit == 4 })
		load.WaitServed(5)
		write("key: models/late\npool: demo\nupstream_name: demo-chat\naliases: [nick]\n")
		f.ExpectSoon("the model to be served", func() bool { return f.Chat(late).Status == 200 })
		load.WaitServed(5)
		write("key: models/later\npool: demo\nupstream_name: demo-chat\n---\nkey: models/late\npool: 7\n")
		testkit.WaitFor(t, "the bad file to be rejected", func() bool { return len(f.FleetPage(f.Entry.Admin).Rejected) > 0 })
		if a := f.Chat(late); a.Status != 200 {
			t.Errorf("the model of the last good version: %d %s", a.Status, a.Body)
		}
		if a := f.Chat(`{"model":"later","max_tokens":1,"messages":[]}`); a.Status != 404 {
			t.Errorf("a good document beside a bad one: %d %s", a.Status, a.Body)
		}
		load.WaitServed(5)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		f.ExpectSoon("the model to be gone", func() bool { return f.Chat(late).Status == 404 })
		f.ApplyAndWait(f.EndpointDocument("sim-2", 1, "demo", "concurrency: 4")[len("---\n"):], func() bool { return f.Pool("ams", "demo").Limit == 8 })
		load.WaitServed(5)
	}
	if page := f.FleetPage(f.Entry.Admin); len(page.Rejected) > 0 {
		t.Errorf("rejected: %v", page.Rejected)
	}
	load.Check()
}
