package clickhouse_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/analytics/columns"
	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
	"colonnade/analytics/sinks/clickhouse"
	"colonnade/internal/clickhousetest"
	"colonnade/internal/faultproxy"
	"colonnade/internal/sinktest"
	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyMain(m) }

// open opens a sink of the database colonnade at an address.
func open(t *testing.T, address, settings string) *clickhouse.Sink {
	t.Helper()
	return openAs(t, "clickhouse://"+clickhousetest.User+"@"+address+"/colonnade", settings, sinktest.Secret(clickhousetest.Password))
}

func openAs(t *testing.T, url, settings string, env sinks.Environment) *clickhouse.Sink {
	t.Helper()
	return openSpec(t, sinktest.Spec(t, url, settings), env)
}

func openSpec(t *testing.T, spec *sinks.Spec, env sinks.Environment) *clickhouse.Sink {
	t.Helper()
	sink, err := clickhouse.Open(spec, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

// has checks that a table has the events from one number up to another, each once to a query with final.
func has(t *testing.T, server *clickhousetest.Server, table string, from, to int) {
	t.Helper()
	got := server.Texts("select event_id from colonnade." + table + " final order by event_id")
	if want := sinktest.IDs(from, to); !slices.Equal(got, want) {
		t.Fatalf("the table has %d events, want %d", len(got), len(want))
	}
}

// rows returns how many rows a table has, without final.
func rows(server *clickhousetest.Server) string {
	return server.Texts("select toString(count()) from colonnade.colonnade_events")[0]
}

func TestRows(t *testing.T) {
	server := clickhousetest.Start(t)
	sink := open(t, server.Address(), "")
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 2))
	got := server.Texts(`select concat_ws(' ', toString(time), kind, toString(colo_path), account, toString(status), toString(request_time_ms),
		ifNull(toString(prompt_tokens), 'NULL'), ifNull(toString(cost), 'NULL'), ifNull(cost_unit, 'NULL'), toString(streamed), toString(partial))
		from colonnade.colonnade_events order by time`)
	for i, want := range []string{
		"2026-11-23 09:59:30.123456 inference ['ams/ams-1','fra/fra-1'] acme 200 1.5 1 0.25 neurons true false",
		"2026-11-23 09:59:31.123456 request [] acme 429 1.5 NULL NULL NULL false false",
	} {
		if got[i] != want {
			t.Errorf("got  %s\nwant %s", got[i], want)
		}
	}
	if got := server.Texts("select comment from system.tables where name = 'colonnade_events'"); got[0] != columns.Comment() {
		t.Errorf("the table's comment is %q", got)
	}
}

func TestCompression(t *testing.T) {
	server := clickhousetest.Start(t)
	for i, compression := range []string{"none", "gzip", "zstd"} {
		spec := sinktest.Spec(t, "clickhouse://"+clickhousetest.User+"@"+server.Address()+"/colonnade", "")
		spec.Compression = compression
		sinktest.Send(t, openSpec(t, spec, sinktest.Secret(clickhousetest.Password)), sinktest.Batch(t, i*10, i*10+10))
	}
	has(t, server, "colonnade_events", 0, 30)
}

// The server's TLS, which stands before the engine here, is checked.
func TestTLS(t *testing.T) {
	server := clickhousetest.Start(t)
	front := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server.Address()}))
	front.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	front.StartTLS()
	defer front.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	address := front.Listener.Addr().String()
	sinktest.Fails(t, open(t, address, "tls=true"), sinktest.Batch(t, 0, 10), false, address, "certificate")
	sinktest.Send(t, open(t, address, "tls=true&ca="+ca), sinktest.Batch(t, 0, 10))
	has(t, server, "colonnade_events", 0, 10)
}

// A batch that is sent again is not there twice, after whichever byte of the answers the connection has ended, or of the requests.
func TestEndsAtAnyMoment(t *testing.T) {
	server := clickhousetest.Start(t)
	const size = 50
	sinktest.Send(t, open(t, server.Address(), ""), sinktest.Batch(t, 0, size))
	asked, answered := bytesOf(t, server.Address(), sinktest.Batch(t, 0, size))
	proxy := testkit.NewProxy(t, server.Address())
	n := 0
	f := func(way faultproxy.Way, at int64) {
		sink := open(t, proxy.Address, "")
		proxy.InjectNext(faultproxy.Fault{Kind: faultproxy.Reset, Way: way, At: at})
		sinktest.Send(t, sink, sinktest.Batch(t, n*size, (n+1)*size))
		_ = sink.Close()
		n++
	}
	moments := int64(testkit.AtScale(8, 60))
	for i := range moments {
		f(faultproxy.ToClient, 1+i*answered/moments)
		f(faultproxy.ToServer, 1+i*asked/moments)
	}
	for _, fromEnd := range []int64{1, 2, 20, 100} { // the answer to the insert
		f(faultproxy.ToClient, answered-fromEnd)
		f(faultproxy.ToServer, asked-fromEnd)
	}
	has(t, server, "colonnade_events", 0, n*size)
}

// bytesOf returns how many bytes go each way on a connection over which a batch is sent.
func bytesOf(t *testing.T, address string, b *ship.Batch) (asked, answered int64) {
	t.Helper()
	type both struct{ asked, answered int64 }
	sent := make(chan both, 1)
	sink := open(t, testkit.Serve(t, func(client net.Conn) {
		server, err := net.Dial("tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		defer server.Close()
		requests := make(chan int64)
		go func() {
			n, _ := io.Copy(server, client)
			_ = server.(*net.TCPConn).CloseWrite()
			requests <- n
		}()
		n, _ := io.Copy(client, server)
		sent <- both{<-requests, n}
	}), "")
	sinktest.Send(t, sink, b)
	_ = sink.Close()
	s := <-sent
	return s.asked, s.answered
}

// A batch that comes again is left out by its token, and events that come again in another batch are collapsed.
func TestRepeatedBatch(t *testing.T) {
	server := clickhousetest.Start(t)
	sink := open(t, server.Address(), "")
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	if got := rows(server); got != "10" {
		t.Errorf("after the same batch the table has %s rows", got)
	}
	sinktest.Send(t, open(t, server.Address(), ""), sinktest.Batch(t, 5, 20)) // as after a restart, with more events
	if got := rows(server); got != "25" {
		t.Errorf("before a merge the table has %s rows", got)
	}
	has(t, server, "colonnade_events", 0, 20)
}

// The token is that of the batch, also where a server would not see by the rows alone that they come again.
func TestToken(t *testing.T) {
	server := clickhousetest.Start(t)
	tokens := make(chan string, 100)
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server.Address()})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := r.URL.Query().Get("insert_deduplication_token"); token != "" {
			tokens <- token
		}
		forward.ServeHTTP(w, r)
	}))
	defer front.Close()
	sink, b := open(t, front.Listener.Addr().String(), ""), sinktest.Batch(t, 0, 10)
	sinktest.Send(t, sink, b)
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	sinktest.Send(t, sink, sinktest.Batch(t, 10, 20))
	close(tokens)
	if first, second, third := <-tokens, <-tokens, <-tokens; first != b.ID() || second != first || third == "" || third == first {
		t.Errorf("the tokens are %q, %q and %q; want twice %q, and another one", first, second, third, b.ID())
	}
}

// The events of a table that was emptied can be sent once more.
func TestEmptiedTable(t *testing.T) {
	server := clickhousetest.Start(t)
	sink := open(t, server.Address(), "")
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	server.Exec("truncate table colonnade.colonnade_events")
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	has(t, server, "colonnade_events", 0, 10)
	server.Exec("drop table colonnade.colonnade_events sync")
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	has(t, server, "colonnade_events", 0, 10)
}

func TestAwayAtStartAndInBetween(t *testing.T) {
	server := clickhousetest.Start(t)
	server.Kill()
	sink := open(t, server.Address(), "")
	sinktest.Fails(t, sink, sinktest.Batch(t, 0, 10), false, server.Address())
	server.Run()
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	server.Kill() // it has acknowledged the batch
	sinktest.Fails(t, sink, sinktest.Batch(t, 10, 20), false)
	server.Run()
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	sinktest.Send(t, sink, sinktest.Batch(t, 10, 20))
	if got := rows(server); got != "20" {
		t.Errorf("after the batch that was acknowledged came again the table has %s rows", got)
	}
	has(t, server, "colonnade_events", 0, 20)
}

// A server that does not answer holds a batch no longer than the shipper wants.
func TestSilentServer(t *testing.T) {
	address := testkit.Serve(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := open(t, address, "").Send(ctx, sinktest.Batch(t, 10, 20)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestRefusedEvent(t *testing.T) {
	server := clickhousetest.Start(t)
	sink := open(t, server.Address(), "")
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 2))
	server.Exec("alter table colonnade.colonnade_events add constraint no_fives check request_id != 'request-5'")
	sinktest.Fails(t, sink, sinktest.Batch(t, 2, 10), true, "table=colonnade_events", "no_fives")
	sinktest.Send(t, sink, sinktest.Batch(t, 2, 5))
	sinktest.Fails(t, sink, sinktest.Batch(t, 5, 6), true, "no_fives")
	sinktest.Send(t, sink, sinktest.Batch(t, 6, 10))
	server.Exec("alter table colonnade.colonnade_events drop constraint no_fives")
	sinktest.Send(t, sink, sinktest.Batch(t, 5, 6))
	has(t, server, "colonnade_events", 0, 10)
}

func TestErrors(t *testing.T) {
	server := clickhousetest.Start(t)
	server.Exec(
		"create table colonnade.other (id Int64, event_id String, phase String) engine = ReplacingMergeTree order by (event_id, phase)",
		"create table colonnade.plain (id Int64) engine = MergeTree order by id",
		"create table colonnade.coarse (id Int64) engine = ReplacingMergeTree order by id",
		"create view colonnade.seen as select * from colonnade.other",
	)
	sinktest.Send(t, open(t, server.Address(), "table=changed_type"), sinktest.Batch(t, 0, 1))
	server.Exec("alter table colonnade.changed_type modify column cost Nullable(String)", "alter table colonnade.changed_type drop column partial")

	fails := func(sink ship.Sink, want ...string) {
		t.Helper()
		sinktest.Fails(t, sink, sinktest.Batch(t, 0, 1), false, want...)
	}
	fails(open(t, server.Address(), "table=other"), "table=other", "columns are missing: request_id, client_request_id", "set table=NAME to a table that is not there yet")
	sinktest.FailsCheck(t, open(t, server.Address(), "table=other"), "table=other", "set table=NAME")
	fails(open(t, server.Address(), "table=plain"), "table=plain", "its engine is MergeTree, which keeps repeated events", "rename this one")
	fails(open(t, server.Address(), "table=coarse"), "table=coarse", "it is ordered by (id)")
	fails(open(t, server.Address(), "table=seen"), "table=seen", "its engine is View")
	fails(open(t, server.Address(), "table=changed_type"), "cost is Nullable(String) and must be Nullable(Float64)", "columns are missing: partial")
	address := "clickhouse://" + clickhousetest.User + "@" + server.Address()
	fails(openAs(t, address+"/colonnade", "", sinktest.Secret("wrong")), "user=writer", "check the user in the URL, and what credential names")
	fails(openAs(t, address+"/colonnade", "", sinks.Environment{}), "user=writer", "set credential=env:NAME")
	fails(openAs(t, address+"/nowhere", "", sinktest.Secret(clickhousetest.Password)), "database=nowhere", "create database nowhere")
	fails(openAs(t, "clickhouse://writer@127.0.0.1:1/colonnade", "", sinktest.Secret("x")), "127.0.0.1:1: dial tcp")
	unreadable := sinks.Environment{Credential: func() (string, error) { return "", errors.New("credential=env:PW: it is not set") }}
	fails(openAs(t, address+"/colonnade", "", unreadable), "credential=env:PW")
}

// A credential that has changed is used for the next batch.
func TestNewCredential(t *testing.T) {
	server := clickhousetest.Start(t)
	secret := "wrong"
	env := sinks.Environment{Credential: func() (string, error) { return secret, nil }}
	sink := openAs(t, "clickhouse://"+clickhousetest.User+"@"+server.Address()+"/colonnade", "", env)
	sinktest.Fails(t, sink, sinktest.Batch(t, 0, 1), false, "user=writer")
	secret = clickhousetest.Password
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 1))
	secret = "wrong again"
	sinktest.Fails(t, sink, sinktest.Batch(t, 1, 2), false, "user=writer")
	has(t, server, "colonnade_events", 0, 1)
}

func TestBadSettings(t *testing.T) {
	f := func(url, settings string, want ...string) {
		t.Helper()
		_, err := clickhouse.Open(sinktest.Spec(t, url, settings), sinktest.Secret("x"))
		for _, text := range want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: got %v, want %q", url, err, text)
			}
		}
	}
	f("clickhouse://u@db/events", "", "8123", "write for example clickhouse://")
	f("clickhouse://u@db:8123", "", "must name a database")
	f("clickhouse://u@db:8123/a.b", "", "must name a database")
	f("clickhouse://db:8123/events", "", "no user in the URL")
	f("clickhouse://u@db:8123/events", "table=a.b", "table=a.b: must be a name", "the database is in the URL")
	f("clickhouse://u@db:8123/events", "table=a%60b", "must be a name")
	f("clickhouse://u@db:8123/events", "tls=yes", "tls=yes: must be true or false")
	f("clickhouse://u@db:8123/events", "ca=/none", "ca=/none: without tls=true")
	f("clickhouse://u@db:8123/events", "tls=true&ca=/none", "ca=/none: open /none")
}

// A table of a version that had fewer columns gets the others, and keeps its rows.
func TestUpgrade(t *testing.T) {
	server := clickhousetest.Start(t)
	sinktest.Send(t, open(t, server.Address(), ""), sinktest.Batch(t, 0, 5))
	server.Exec("alter table colonnade.colonnade_events add column ours String") // of the operator, and no obstacle
	clickhouse.Upgrade(t, server.Address(), "partial")
	sinktest.Send(t, open(t, server.Address(), ""), sinktest.Batch(t, 5, 10))
	has(t, server, "colonnade_events", 0, 10)
	if got := server.Texts("select toString(count()) from colonnade.colonnade_events where not partial"); got[0] != "10" {
		t.Errorf("%s rows have the new column", got)
	}
}

// A table of version 2 gets the columns of version 3, with which the events about engines came.
func TestUpgradeFromVersion2(t *testing.T) {
	server := clickhousetest.Start(t)
	sinktest.Send(t, open(t, server.Address(), ""), sinktest.Batch(t, 0, 5))
	for _, column := range []string{"worker", "machine", "gpu", "detail"} {
		server.Exec("alter table colonnade.colonnade_events drop column " + column)
	}
	server.Exec("alter table colonnade.colonnade_events modify comment 'Events of Colonnade, schema 2'")
	sink := open(t, server.Address(), "")
	sinktest.Send(t, sink, sinktest.BatchOf(t, "1-5", sinktest.Incident()))
	sinktest.Send(t, sink, sinktest.BatchOf(t, "2-5", sinktest.Incident())) // of another server, the same event
	got := server.Texts("select concat(toString(count()), ' ', any(worker), ' ', any(machine), ' ', any(gpu), ' ', any(reason), ' ', any(detail)) " +
		"from colonnade.colonnade_events final where kind = 'engine'")
	if got[0] != "1 gpu-7-8000 gpu-7 GPU-1 gpu_xid Xid 79" {
		t.Errorf("got %q", got)
	}
	if got := server.Texts("select toString(count()) from colonnade.colonnade_events where worker is null"); got[0] != "5" {
		t.Errorf("%s rows are left without a worker", got)
	}
}

// Several processes that begin at once make one table.
func TestManyAtOnce(t *testing.T) {
	server := clickhousetest.Start(t)
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
	has(t, server, "colonnade_events", 0, n*10+5)
}
