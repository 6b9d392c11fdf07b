package postgres_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"colonnade/analytics/columns"
	"colonnade/analytics/journal"
	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
	"colonnade/analytics/sinks/postgres"
	"colonnade/internal/faultproxy"
	"colonnade/internal/pgtest"
	"colonnade/internal/sinktest"
	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyMain(m) }

// open opens a sink of the database postgres at an address, as the user postgres.
func open(t *testing.T, address, settings string) *postgres.Sink {
	t.Helper()
	return openAs(t, "postgres://postgres@"+address+"/postgres", settings, sinktest.Secret(pgtest.Password))
}

func openAs(t *testing.T, url, settings string, env sinks.Environment) *postgres.Sink {
	t.Helper()
	sink, err := postgres.Open(sinktest.Spec(t, url, settings), env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

// database is a connection of the test itself.
type database struct {
	t    *testing.T
	conn *pgx.Conn
}

func connect(t *testing.T, server *pgtest.Server) database {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return database{t, conn}
}

func (d database) exec(statements ...string) {
	d.t.Helper()
	for _, statement := range statements {
		if _, err := d.conn.Exec(d.t.Context(), statement); err != nil {
			d.t.Fatalf("%s: %v", statement, err)
		}
	}
}

func (d database) texts(query string) []string {
	d.t.Helper()
	rows, err := d.conn.Query(d.t.Context(), query)
	if err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
	return texts
}

// has checks that the table of events has the events from one number up to another, each once.
func (d database) has(table string, from, to int) {
	d.t.Helper()
	got := d.texts("select event_id from " + table + " order by event_id")
	if want := sinktest.IDs(from, to); !slices.Equal(got, want) {
		d.t.Fatalf("the table has %d events, want %d", len(got), len(want))
	}
}

func TestRows(t *testing.T) {
	server := pgtest.Start(t)
	sink := open(t, server.Address(), "")
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 2))
	d := connect(t, server)
	for i, want := range []string{
		"2026-11-23 09:59:30.123456 inference {ams/ams-1,fra/fra-1} acme 200 1.5 1 0.25 neurons true false",
		"2026-11-23 09:59:31.123456 request {} acme 429 1.5 NULL NULL NULL false false",
	} {
		if got := d.texts(`select concat_ws(' ', time at time zone 'UTC', kind, colo_path, account, status, request_time_ms, coalesce(prompt_tokens::text, 'NULL'),
			coalesce(cost::text, 'NULL'), coalesce(cost_unit, 'NULL'), streamed::text, partial::text) from colonnade_events order by time`)[i]; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := d.texts("select obj_description('colonnade_events'::regclass)"); got[0] != columns.Comment() {
		t.Errorf("the table's comment is %q", got)
	}
}

// A batch that is sent again is not there twice, after whichever byte of the answers the connection has ended. The last of them acknowledge
// the commit.
func TestEndsAtAnyMoment(t *testing.T) {
	server := pgtest.Start(t)
	const size = 50
	sinktest.Send(t, open(t, server.Address(), ""), sinktest.Batch(t, 0, size))
	answered := bytesOfAnswers(t, server.Address(), sinktest.Batch(t, 0, size))
	moments := []int64{answered - 1, answered - 6, answered - 7, answered - 18, answered - 19, answered - 30}
	for at, step := int64(1), answered/int64(testkit.AtScale(200, 20)); at < answered; at += step {
		moments = append(moments, at)
	}
	proxy := testkit.NewProxy(t, server.Address())
	for i, at := range moments {
		sink := open(t, proxy.Address, "sslmode=disable")
		proxy.InjectNext(faultproxy.Fault{Kind: faultproxy.Reset, Way: faultproxy.ToClient, At: at})
		sinktest.Send(t, sink, sinktest.Batch(t, i*size, (i+1)*size))
		_ = sink.Close()
	}
	connect(t, server).has("colonnade_events", 0, len(moments)*size)
}

// bytesOfAnswers returns how many bytes a server sends on a connection over which a batch is sent.
func bytesOfAnswers(t *testing.T, address string, b *ship.Batch) int64 {
	t.Helper()
	sent := make(chan int64, 1)
	sink := open(t, testkit.Serve(t, func(client net.Conn) {
		server, err := net.Dial("tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.(*net.TCPConn).CloseWrite()
		}()
		n, _ := io.Copy(client, server)
		sent <- n
	}), "sslmode=disable")
	sinktest.Send(t, sink, b)
	_ = sink.Close()
	return <-sent
}

func TestRepeatedBatch(t *testing.T) {
	server := pgtest.Start(t)
	sink := open(t, server.Address(), "")
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	sinktest.Send(t, open(t, server.Address(), ""), sinktest.Batch(t, 5, 20)) // as after a restart, with more events
	connect(t, server).has("colonnade_events", 0, 20)
}

func TestAwayAtStartAndInBetween(t *testing.T) {
	server := pgtest.Start(t)
	server.Kill()
	sink := open(t, server.Address(), "")
	sinktest.Fails(t, sink, sinktest.Batch(t, 0, 10), false, server.Address())
	server.Run()
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	server.Kill()
	sinktest.Fails(t, sink, sinktest.Batch(t, 10, 20), false)
	server.Run()
	sinktest.Send(t, sink, sinktest.Batch(t, 10, 20))
	connect(t, server).has("colonnade_events", 0, 20)
}

// A server that does not answer holds a batch no longer than the shipper wants, and has none of it twice.
func TestSilentServer(t *testing.T) {
	server := pgtest.Start(t)
	sink := open(t, server.Address(), "")
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := sink.Send(ctx, sinktest.Batch(t, 10, 20)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	server.Continue()
	sinktest.Send(t, sink, sinktest.Batch(t, 10, 20))
	connect(t, server).has("colonnade_events", 0, 20)
}

func TestRefusedEvent(t *testing.T) {
	server := pgtest.Start(t)
	sink := open(t, server.Address(), "")
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 2))
	d := connect(t, server)
	d.exec("alter table colonnade_events add constraint no_fives check (request_id <> 'request-5')")
	sinktest.Fails(t, sink, sinktest.Batch(t, 2, 10), true, "table=colonnade_events", "no_fives")
	sinktest.Send(t, sink, sinktest.Batch(t, 2, 5))
	sinktest.Fails(t, sink, sinktest.Batch(t, 5, 6), true, "no_fives")
	sinktest.Send(t, sink, sinktest.Batch(t, 6, 10))
	d.exec("alter table colonnade_events drop constraint no_fives")
	sinktest.Send(t, sink, sinktest.Batch(t, 5, 6))
	d.has("colonnade_events", 0, 10)
}

// A shipper finds the event that the table refuses, and all others are there once.
func TestShipperSkipsARefusedEvent(t *testing.T) {
	server := pgtest.Start(t)
	sink := open(t, server.Address(), "")
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 2)) // makes the table
	d := connect(t, server)
	d.exec("alter table colonnade_events add constraint no_fives check (request_id <> 'request-5')")
	dir := t.TempDir()
	l, err := journal.Open(journal.Config{Dir: dir, Node: "ams-1"})
	if err != nil {
		t.Fatal(err)
	}
	for n := 2; n < 40; n++ {
		e := sinktest.Event(n)
		l.Append(&e)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := ship.Open(ship.Config{Dir: dir, Node: "ams-1", Name: "pg", BatchEvents: 25, BatchBytes: 1 << 20, Every: time.Second, Once: true}, sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err != nil {
		t.Error(err)
	}
	stats := s.Stats()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if stats.Rejected != 1 || stats.Shipped != 37 || stats.LagEvents != 0 || !strings.Contains(stats.LastRejected, "no_fives") {
		t.Errorf("%+v", stats)
	}
	want := slices.DeleteFunc(sinktest.IDs(0, 40), func(id string) bool { return id == sinktest.Event(5).EventID })
	if got := d.texts("select event_id from colonnade_events order by event_id"); !slices.Equal(got, want) {
		t.Errorf("the table has %d events, want %d", len(got), len(want))
	}
}

// A partition that is missing, and a column that an operator has added, are no fault of the events: they are kept until the table is right.
func TestTableThatLacksSomethingKeepsEvents(t *testing.T) {
	server := pgtest.Start(t)
	d := connect(t, server)
	sinktest.Send(t, open(t, server.Address(), "table=pattern"), sinktest.Batch(t, 0, 1))
	d.exec("create table parts (like pattern including defaults including comments) partition by range (time)", "create unique index on parts (event_id, phase, time)")
	sink := open(t, server.Address(), "table=parts")
	sinktest.Fails(t, sink, sinktest.Batch(t, 0, 2), false, "table=parts", "no partition", "create the partition")
	d.exec("create table parts_default partition of parts default")
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 2))
	d.has("parts", 0, 2)

	d.exec("alter table pattern add column region text not null default 'eu'", "alter table pattern alter column region drop default")
	const said = "events have no value for the columns region"
	sinktest.Fails(t, open(t, server.Address(), "table=pattern"), sinktest.Batch(t, 1, 2), false, "table=pattern", said, "give each a default")
	d.exec("alter table pattern alter column region set default 'eu'")
	sink = open(t, server.Address(), "table=pattern")
	sinktest.Send(t, sink, sinktest.Batch(t, 1, 2))
	d.exec("alter table pattern alter column region drop default") // while the sink is connected
	sinktest.Fails(t, sink, sinktest.Batch(t, 2, 4), false, "table=pattern", `"region"`, "drop its not null")
	sinktest.Fails(t, sink, sinktest.Batch(t, 2, 4), false, said)
	d.exec("alter table pattern drop column region")
	sinktest.Send(t, sink, sinktest.Batch(t, 2, 4))
	d.has("pattern", 0, 4)
}

// A table that cannot be made is no fault of the events: they are kept until it can.
func TestTableCannotBeMade(t *testing.T) {
	server := pgtest.Start(t)
	d := connect(t, server)
	d.exec(`create function forbid() returns event_trigger language plpgsql as $$ begin raise exception 'no tables today'; end $$`,
		"create event trigger forbidden on ddl_command_start when tag in ('CREATE TABLE') execute function forbid()")
	sink := open(t, server.Address(), "")
	sinktest.Fails(t, sink, sinktest.Batch(t, 0, 2), false, "table=colonnade_events", "no tables today")
	d.exec("drop event trigger forbidden")
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 2))
	d.has("colonnade_events", 0, 2)
}

func TestErrors(t *testing.T) {
	server := pgtest.Start(t)
	d := connect(t, server)
	d.exec(
		"create table other (id int)",
		"create table changed (like other)",
		"create view seen as select * from other",
		"create role reader login password 'reads'",
		"revoke create on schema public from public",
		"create schema billing",
	)
	sinktest.Send(t, open(t, server.Address(), "table=changed_type"), sinktest.Batch(t, 0, 1))
	d.exec("alter table changed_type alter column cost type numeric using cost::numeric", "alter table changed_type drop column partial")
	sinktest.Send(t, open(t, server.Address(), "table=keyless"), sinktest.Batch(t, 0, 1))
	d.exec("alter table keyless drop constraint keyless_pkey")

	fails := func(sink ship.Sink, want ...string) {
		t.Helper()
		sinktest.Fails(t, sink, sinktest.Batch(t, 0, 1), false, want...)
	}
	fails(open(t, server.Address(), "table=other"), "table=other", "columns are missing: event_id, request_id", "set table=NAME to a table that is not there yet")
	fails(open(t, server.Address(), "table=seen"), "table=seen", "it is no table")
	fails(open(t, server.Address(), "table=changed_type"), "table=changed_type", "cost is numeric and must be double precision", "columns are missing: partial")
	fails(open(t, server.Address(), "table=keyless"), "table=keyless", "no unique index on (event_id, phase, time)")
	fails(open(t, server.Address(), "table=nowhere.events"), "table=nowhere.events", "create schema nowhere")
	address := "postgres://postgres@" + server.Address()
	fails(openAs(t, address+"/postgres", "", sinktest.Secret("wrong")), "user=postgres", "check what credential names")
	fails(openAs(t, address+"/postgres", "", sinks.Environment{}), "user=postgres", "set credential=env:NAME")
	fails(openAs(t, address+"/none", "", sinktest.Secret(pgtest.Password)), "database=none", "createdb none")
	fails(openAs(t, strings.Replace(address, "postgres@", "reader@", 1)+"/postgres", "", sinktest.Secret("reads")), "table=colonnade_events", "user reader needs")
	fails(openAs(t, "postgres://postgres@127.0.0.1:1/postgres", "", sinktest.Secret("")), "127.0.0.1:1")
	unreadable := sinks.Environment{Credential: func() (string, error) { return "", errors.New("credential=env:PW: it is not set") }}
	fails(openAs(t, address+"/postgres", "", unreadable), "credential=env:PW")

	sinktest.FailsCheck(t, open(t, server.Address(), "table=other"), "table=other", "set table=NAME")

	sinktest.Send(t, open(t, server.Address(), "table=billing.events"), sinktest.Batch(t, 0, 3))
	d.has("billing.events", 0, 3)
}

func TestBadSettings(t *testing.T) {
	f := func(url, settings string, want ...string) {
		t.Helper()
		_, err := postgres.Open(sinktest.Spec(t, url, settings), sinks.Environment{})
		for _, text := range want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: got %v, want %q", url, err, text)
			}
		}
	}
	f("postgres:///db", "", "the URL has no host", "write for example postgres://")
	f("postgres://db", "", "the URL names no database")
	f("postgres://db/events", "table=a.b.c", "table=a.b.c: must be a name")
	f("postgres://db/events", "table=Events", "table=Events: must be a name of lower-case letters")
	f("postgres://db/events", "table=a%3Bdrop+table+b", "must be a name")
	f("postgres://db/events", "sslmode=yes", "sslmode=yes: must be one of disable, allow")
	f("postgres://db/events", "sslmode=verify-full&sslrootcert=/none", "/none")
}

// A table of a version that had fewer columns gets the others, and keeps its rows.
func TestUpgrade(t *testing.T) {
	server := pgtest.Start(t)
	sink := open(t, server.Address(), "")
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 5))
	d := connect(t, server)
	d.exec("alter table colonnade_events add column ours text") // of the operator, and no obstacle
	postgres.Upgrade(t, d.conn, "colonnade_events", "partial")
	sinktest.Send(t, sink, sinktest.Batch(t, 5, 10))
	d.has("colonnade_events", 0, 10)
	if got := d.texts("select count(*)::text from colonnade_events where not partial"); got[0] != "10" {
		t.Errorf("%s rows have the new column", got)
	}
}

// A table of version 2 gets the columns of version 3, with which the events about engines came.
func TestUpgradeFromVersion2(t *testing.T) {
	server := pgtest.Start(t)
	sinktest.Send(t, open(t, server.Address(), ""), sinktest.Batch(t, 0, 5))
	d := connect(t, server)
	d.exec("alter table colonnade_events drop column worker, drop column machine, drop column gpu, drop column detail",
		"comment on table colonnade_events is 'Events of Colonnade, schema 2'")
	sink := open(t, server.Address(), "")
	sinktest.Send(t, sink, sinktest.BatchOf(t, "1-5", sinktest.Incident()))
	sinktest.Send(t, sink, sinktest.BatchOf(t, "2-5", sinktest.Incident())) // of another server, the same event
	got := d.texts("select concat_ws(' ', count(*), min(worker), min(machine), min(gpu), min(reason), min(detail)) from colonnade_events where kind = 'engine'")
	if got[0] != "1 gpu-7-8000 gpu-7 GPU-1 gpu_xid Xid 79" {
		t.Errorf("got %q", got)
	}
	if got := d.texts("select count(*)::text from colonnade_events where worker is null"); got[0] != "5" {
		t.Errorf("%s rows are left without a worker", got)
	}
	if got := d.texts("select obj_description(to_regclass('colonnade_events'), 'pg_class')"); got[0] != columns.Comment() {
		t.Errorf("the table is of %q", got)
	}
}

// Several processes that begin at once make one table.
func TestManyAtOnce(t *testing.T) {
	server := pgtest.Start(t)
	done := make(chan error)
	const n = 5
	for i := range n {
		sink := open(t, server.Address(), "")
		b := sinktest.Batch(t, i*10, i*10+15)
		go func() { done <- sink.Send(t.Context(), b) }()
	}
	for range n {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	connect(t, server).has("colonnade_events", 0, n*10+5)
}

// TimescaleDB itself is not here: what stands in its place is the row that says that it is installed, and its function.
func TestHypertable(t *testing.T) {
	server := pgtest.Start(t)
	d := connect(t, server)
	d.exec(
		"insert into pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion) values (99999, 'timescaledb', 10, 2200, false, '2.20.0')",
		"create table hypertables (name text)",
		`create function create_hypertable(relation regclass, time_column_name name) returns void language sql
			as $$ insert into hypertables values (relation::text || '.' || time_column_name) $$`,
	)
	sinktest.Send(t, open(t, server.Address(), ""), sinktest.Batch(t, 0, 5))
	sinktest.Send(t, open(t, server.Address(), ""), sinktest.Batch(t, 5, 10)) // finds the table
	if got := d.texts("select name from hypertables"); !slices.Equal(got, []string{"colonnade_events.time"}) {
		t.Errorf("hypertables: %q", got)
	}
	d.has("colonnade_events", 0, 10)
}
