package node_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"colonnade/entry"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// Programs that read /debug/config find empty lists, and not null.
func TestConfigPageHasNoNull(t *testing.T) {
	t.Parallel()
	r, _ := startEntry(t, config(t, etcdtest.Start(t), "entry-1"))
	if got := page(t, r, "/debug/config"); strings.Contains(got, "null") || !strings.Contains(got, `"rejected": []`) {
		t.Errorf("got %s", got)
	}
}

// The page of the fleet at an entry, and its metrics, have what it has observed of each colo.
func TestColosOfAnEntry(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	if _, err := s.Client(t).Put(t.Context(), node.Prefix+"colos/ams", "region: weur"); err != nil {
		t.Fatal(err)
	}
	r, _ := startEntry(t, config(t, s, "entry-1"))
	testkit.WaitFor(t, "the colo", func() bool { return strings.Contains(page(t, r, "/debug/fleet"), `"colos/ams"`) })
	var fleet struct{ Colos []entry.ObservedColo }
	if err := json.Unmarshal([]byte(page(t, r, "/debug/fleet")), &fleet); err != nil {
		t.Fatal(err)
	}
	if want := (entry.ObservedColo{Colo: "ams", RoundTripMillis: 100}); len(fleet.Colos) != 1 || fleet.Colos[0] != want {
		t.Errorf("observed %+v, want %+v", fleet.Colos, want)
	}
	got := page(t, r, "/metrics")
	for _, line := range []string{
		`colonnade_colo_round_trip_seconds{colo="ams"} 0.1`, `colonnade_colo_round_trip_measured{colo="ams"} 0`, `colonnade_colo_unreached{colo="ams"} 0`,
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("no %s", line)
		}
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
