package node_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// Programs that read /debug/config find empty lists, and not null.
func TestConfigPageHasNoNull(t *testing.T) {
	t.Parallel()
	r, _ := startEntry(t, config(t, etcdtest.Start(t), "entry-1"))
	if got := page(t, r, "/debug/config"); strings.Contains(got, "null") || !strings.Contains(got, `"rejected": []`) {
		t.Errorf("got %s", got)
	}
}

// Events that cannot be written are reported by the pages of a node that serves all the same.
func TestLostEventsAreReported(t *testing.T) {
	t.Parallel()
	c := config(t, etcdtest.Start(t), "entry-1")
	r, _ := startEntry(t, c)
	if got := page(t, r, "/health/ready"); strings.Contains(got, "dropped") {
		t.Errorf("readiness before: %s", got)
	}
	if err := os.RemoveAll(filepath.Join(c.DataDir, "events", "entry-1")); err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post("http://"+r.Address+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"none"}`))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	const want = "events are being dropped: refusals, 1 since the start"
	for _, path := range []string{"/health/ready", "/debug/check", "/debug/config"} {
		testkit.WaitFor(t, path+" to report the loss", func() bool { return strings.Contains(page(t, r, path), want) })
	}
}
