package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/internal/clickhousetest"
	"colonnade/internal/pgtest"
	"colonnade/internal/testkit"
)

func appendEvents(t *testing.T, l *journal.Log, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		l.Append(ended(fmt.Sprintf("%06d", n), "acme", analytics.OutcomeCompleted))
	}
}

// Both sinks get all events of the node, each once, over several runs.
func TestShipOnce(t *testing.T) {
	server := pgtest.Start(t)
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "events.jsonl")
	t.Setenv("PG", pgtest.Password)
	l := openLog(t, dir, "ams-1")
	table := "postgres://postgres@" + server.Address() + "/postgres?credential=env:PG"
	for i := range 3 {
		appendEvents(t, l, i*500, (i+1)*500)
		got := run(t, "", "ship", "-data-dir", dir, "-once", "-sink", table, "-sink", "file:"+file)
		if out := got.out; got.err != nil || strings.Count(out, "500 events shipped, 0 to go") != 2 {
			t.Errorf("run %d printed %q, %v", i, out, got.err)
		}
	}
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var rows, different int
	if err := conn.QueryRow(t.Context(), "select count(*), count(distinct event_id) from colonnade_events").Scan(&rows, &different); err != nil || rows != 1500 || different != 1500 {
		t.Errorf("the table has %d events, %d different ones, %v", rows, different, err)
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), "\n") != 1500 {
		t.Errorf("the file has %d events, %v", strings.Count(string(text), "\n"), err)
	}
}

// A table that cannot be used is named at the start, also without an event.
func TestShipToAnotherTable(t *testing.T) {
	server := pgtest.Start(t)
	dir := t.TempDir()
	t.Setenv("PG", pgtest.Password)
	openLog(t, dir, "ams-1")
	p := startShip(t, "-data-dir", dir, "-progress", "10ms", "-sink", "postgres://postgres@"+server.Address()+"/template1?credential=env:PG&name=pg")
	testkit.WaitFor(t, "a line", func() bool { return strings.Contains(p.Output(), "0 events shipped, 0 to go\n") })
	if err := p.Stop(os.Interrupt); err != nil {
		t.Error(err)
	}
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), "create table mine (id int)"); err != nil {
		t.Fatal(err)
	}
	p = startShip(t, "-data-dir", dir, "-progress", "10ms", "-sink", "postgres://postgres@"+server.Address()+"/postgres?table=mine&credential=env:PG&name=pg")
	testkit.WaitFor(t, "the error", func() bool {
		return strings.Contains(p.Output(), "0 to go; failing: table=mine: ") && strings.Contains(p.Output(), `sink=pg error="table=mine: `)
	})
	if err := p.Stop(os.Interrupt); err != nil {
		t.Error(err)
	}
}

// The table of ClickHouse has all events, each once, also after a run that has begun again.
func TestShipToClickHouse(t *testing.T) {
	server := clickhousetest.Start(t)
	dir := t.TempDir()
	t.Setenv("CH", clickhousetest.Password)
	l := openLog(t, dir, "ams-1")
	table := "clickhouse://" + clickhousetest.User + "@" + server.Address() + "/colonnade?credential=env:CH&batch_events=200&name="
	for i, name := range []string{"ch", "ch", "other-position"} {
		appendEvents(t, l, i*500, (i+1)*500)
		if got := run(t, "", "ship", "-data-dir", dir, "-once", "-sink", table+name); got.err != nil {
			t.Errorf("run %d printed %q, %v", i, got.out, got.err)
		}
	}
	got := server.Texts("select concat(toString(count()), ' ', toString(uniqExact(event_id))) from colonnade.colonnade_events final")
	if got[0] != "1500 1500" {
		t.Errorf("the table has %s", got[0])
	}
}

func TestShipFails(t *testing.T) {
	dir := t.TempDir()
	f := func(want string, args ...string) {
		t.Helper()
		run(t, "", append([]string{"ship"}, args...)...).fail(t, want)
	}
	f("flag -data-dir is missing")
	f("no node keeps events there", "-data-dir", dir, "-sink", "file:/tmp/x")
	l := openLog(t, dir, "ams-1")
	appendEvents(t, l, 0, 10)
	f("flag -sink is missing", "-data-dir", dir)
	f("unknown scheme", "-data-dir", dir, "-sink", "kafak://a/b")
	f("credential=env:NOT_THERE", "-data-dir", dir, "-sink", "postgres://u@h/d?credential=env:NOT_THERE")
	f("table=a.b: must be a name", "-data-dir", dir, "-sink", "clickhouse://u@h:8123/d?table=a.b&credential=env:HOME")
	f("table=A: must be a name", "-data-dir", dir, "-sink", "postgres://u@h/d?table=A")
	away, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away.Close()
	f("has not taken 10 events of node ams-1", "-data-dir", dir, "-once", "-give-up", "500ms", "-sink", "http://"+away.Addr().String()+"/events")

	segments, err := filepath.Glob(filepath.Join(dir, "events", "ams-1", "*.log"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("segments: %q, %v", segments, err)
	}
	if err := errors.Join(os.Remove(segments[0]), os.Mkdir(segments[0], 0o700)); err != nil { // a test that runs as root may read everything else
		t.Fatal(err)
	}
	f("lacks events of node ams-1: cannot read events: read "+segments[0], "-data-dir", dir, "-once", "-sink", "file:"+filepath.Join(t.TempDir(), "events.jsonl"))
}

// No node links a client that only `colonnade ship` needs.
func TestNodesAreSmall(t *testing.T) {
	large := []string{"github.com/twmb/franz-go", "github.com/jackc/pgx", "github.com/ClickHouse", "github.com/minio/minio-go", "github.com/parquet-go"}
	for _, program := range []string{"entry", "colo"} {
		out, err := exec.Command("go", "list", "-deps", "../"+program).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range strings.Fields(string(out)) {
			if slices.ContainsFunc(large, func(prefix string) bool { return strings.HasPrefix(path, prefix) }) {
				t.Errorf("%s links %s", program, path)
			}
		}
	}
}
