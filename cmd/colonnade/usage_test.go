package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/testkit"
)

// used is a final event of a permit.
func used(id, account, model string, cost float64) *analytics.Event {
	e := ended(id, account, analytics.OutcomeCompleted)
	e.Kind, e.Model, e.Pool, e.PromptTokens, e.CompletionTokens, e.Cost, e.CostUnit = analytics.KindInference, model, "p", 1000, 234, cost, "neurons"
	return e
}

func TestUsage(t *testing.T) {
	t.Setenv("TZ", "UTC")
	dir := t.TempDir()
	edge, ams := openLog(t, dir, "edge-1"), openLog(t, dir, "ams-1")
	day := func(e *analytics.Event, n int) *analytics.Event {
		e.Time, e.Pool = time.Date(2026, 11, n, 12, 0, 0, 0, time.UTC), "p"
		return e
	}
	edge.Append(day(ended("1", "acme", analytics.OutcomeCompleted), 1))
	edge.Append(day(ended("2", "acme", analytics.OutcomeRefused), 2))
	edge.Append(day(ended("3", "beta", analytics.OutcomeEngineError), 2))
	for range 2 { // kept twice
		ams.Append(day(used("4", "acme", "tiny", 1.5), 1))
	}
	ams.Append(day(used("5", "beta", "large", 0.25), 2))
	f := func(want string, args ...string) {
		t.Helper()
		out := run(t, "", append([]string{"usage", "-data-dir", dir, "-utc"}, args...)...).want(t)
		if out != want {
			t.Errorf("%v: got\n%s\nwant\n%s", args, out, want)
		}
	}
	f(`first event 2026-11-01 12:00:00, last event 2026-11-02 12:00:00, times are UTC

ACCOUNT  REQUESTS  REFUSED  FAILED  INFERENCES  PROMPT  COMPLETION  NEURONS
acme            2        1       0           1   1 000         234      1.5
beta            1        0       1           1   1 000         234     0.25
total           3        1       1           2   2 000         468     1.75
`)
	f(`account,model,day,requests,refused,failed,client_gone,inferences,prompt_tokens,completion_tokens,cached_tokens,tokens_estimated,audio_seconds,cost_neurons
acme,tiny,2026-11-01,1,0,0,0,1,1000,234,0,0,0,1.5
acme,tiny,2026-11-02,1,1,0,0,0,0,0,0,0,0,0
beta,large,2026-11-02,0,0,0,0,1,1000,234,0,0,0,0.25
beta,tiny,2026-11-02,1,0,1,0,0,0,0,0,0,0,0
`, "-by", "account,model,day", "-csv")
	f(`since 2026-11-02 00:00:00, until 2026-11-03 00:00:00, first event 2026-11-02 12:00:00, last event 2026-11-02 12:00:00, times are UTC

REQUESTS  REFUSED  FAILED  INFERENCES  PROMPT  COMPLETION
       1        1       0           0       0           0
`, "-by", "none", "-account", "acme", "-since", "2026-11-02T00:00:00Z", "-until", "2026-11-03T00:00:00Z")
	f("times are UTC\nno request has ended in this time\n", "-account", "unknown")

	var page usageJSON
	out := run(t, "", "usage", "-data-dir", dir, "-json", "-by", "day").want(t)
	if err := json.Unmarshal([]byte(out), &page); err != nil || len(page.Rows) != 2 || page.Rows[0]["day"] != "2026-11-01" || page.Total.Cost["neurons"] != 1.75 || page.Missing == nil {
		t.Errorf("%v in %s", err, out)
	}
	bad := func(want string, args ...string) {
		t.Helper()
		run(t, "", append([]string{"usage", "-data-dir", dir}, args...)...).fail(t, want)
	}
	bad(`flag -by: "week" is none of account, key, model, colo, day, or none`, "-by", "account,week")
	bad("flag -by: day is there twice", "-by", "day,day")
	bad("-csv excludes -json", "-csv", "-json")
	bad(`flag -since: "x" is no time`, "-since", "x")
}

// With -utc, a day of the command line is one of UTC, too.
func TestUsageOfADayInUTC(t *testing.T) {
	dir := t.TempDir()
	openLog(t, dir, "edge-1")
	zone := filepath.Join(dir, "zone") // 5 h ahead of UTC, in the form of tzfile(5); systems without zones have no name for it
	if err := os.WriteFile(zone, slices.Concat([]byte("TZif"), make([]byte, 16+4*4), []byte{0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 5 * 3600 >> 8, 5 * 3600 & 0xff, 0, 0}, []byte("+05\x00")), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(since, until time.Time, args ...string) {
		t.Helper()
		command := asCommand(append([]string{"usage", "-data-dir", dir, "-json", "-since", "2026-11-01", "-until", "2026-11-02 12:00"}, args...)...)
		command.Env = append(command.Env, "TZ="+zone)
		out, err := command.Output()
		var page usageJSON
		if err := errors.Join(err, json.Unmarshal(out, &page)); err != nil || !page.Since.Equal(since) || !page.Until.Equal(until) {
			t.Errorf("%v: %v in %s", args, err, out)
		}
	}
	f(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC), "-utc")
	f(time.Date(2026, 10, 31, 19, 0, 0, 0, time.UTC), time.Date(2026, 11, 2, 7, 0, 0, 0, time.UTC))
}

// A sum without a node says so, in each form, and fails: one that cannot be asked, and one that has ended, which other events name.
func TestUsageOfAFleetIsPartial(t *testing.T) {
	s := startEtcd(t)
	edge, ams := startLogging(t, s, "entries/edge-1"), startLogging(t, s, "servers/ams/ams-1")
	request := ended("1", "acme", analytics.OutcomeCompleted)
	request.ColoPath = []string{"ams/ams-1"}
	edge.Append(request)
	ams.Append(used("2", "acme", "tiny", 3))
	out := run(t, "", "usage", "-csv").want(t)
	if rows, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || len(rows) != 2 || rows[1][len(rows[1])-1] != "3" {
		t.Errorf("got %s, %v", out, err)
	}
	out = run(t, "", "usage", "-csv", "-admin", strings.Join([]string{ams.admin, edge.admin, ams.admin}, ",")).want(t) // which names a node twice
	if !strings.HasSuffix(strings.TrimSpace(out), ",3") {
		t.Errorf("got %s", out)
	}
	put(t, s, map[string]string{"servers/fra/fra-1": registered(testkit.Unreachable(t))})
	run(t, "", "usage").fail(t, "PARTIAL: 1 node is missing", "missing: node fra-1: ", "the result is partial: 1 of 3 nodes could not be asked")
	run(t, "", "usage", "-json").fail(t, `"missing": [`, `"node fra-1: `)

	gone := ended("3", "acme", analytics.OutcomeCompleted)
	gone.ColoPath = []string{"iad/iad-1"}
	edge.Append(gone)
	run(t, "", "usage", "-admin", edge.admin+","+ams.admin).fail(t, "missing: server iad/iad-1: it has carried requests and is not registered", "1 of 3 nodes")
}

// A node that several addresses lead to counts once, and its events are shown once.
func TestAddressesOfOneNode(t *testing.T) {
	ams, fra := startLogging(t, nil, "servers/ams/ams-1"), startLogging(t, nil, "servers/fra/ams-1") // two places may call their nodes the same
	for i := range 3000 {                                                                            // several pages
		ams.Append(used(fmt.Sprintf("a%04d", i), "acme", "m", 1))
	}
	fra.Append(used("f0", "acme", "m", 1))
	other := testkit.NewProxy(t, ams.admin)
	away := testkit.Unreachable(t)
	admin := strings.Join([]string{ams.admin, other.Address, fra.admin}, ",")
	var got usageJSON
	if err := json.Unmarshal([]byte(run(t, "", "usage", "-json", "-admin", admin).want(t)), &got); err != nil || got.Total.Inferences != 3001 {
		t.Errorf("%d inferences, %v", got.Total.Inferences, err)
	}
	if ids := strings.Fields(idsIn(run(t, "", "events", "-n", "3000", "-admin", admin).want(t))); len(ids) != 3000 || ids[0] == ids[1] {
		t.Errorf("%d events: %.100q", len(ids), ids)
	}
	run(t, "", "usage", "-admin", admin+","+away).fail(t, "1 of 3 nodes could not be asked")
}

func TestGrouped(t *testing.T) {
	f := func(x float64, want string) {
		t.Helper()
		if got := grouped(x); got != want {
			t.Errorf("%v: got %s, want %s", x, got, want)
		}
	}
	f(0, "0")
	f(999, "999")
	f(1000, "1 000")
	f(1234567.89, "1 234 567.89")
	f(0.00004, "0")
	f(0.12345, "0.1235")
	f(100000, "100 000")
}
