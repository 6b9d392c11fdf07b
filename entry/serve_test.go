package entry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/analytics/journal"
	"colonnade/analytics/metrics"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/server"
)

// startEntry runs an open entry until the test's end, and returns its URL.
func startEntry(t *testing.T, table *fleet.Table) string {
	t.Helper()
	url, _ := startEntryBy(t, func() *fleet.Table { return table })
	return url
}

// startEntryBy is startEntry with tables that change; it returns what the entry measures, too.
func startEntryBy(t *testing.T, table func() *fleet.Table) (url string, measured *metrics.Registry) {
	t.Helper()
	url, e := startEntryWith(t, Config{Table: table}, t.TempDir())
	return url, e.config.Metrics.(*metrics.Registry)
}

// startEntryWith is startEntry with some of its own, and events in a directory.
func startEntryWith(t testing.TB, c Config, events string) (url string, e *Entry) {
	t.Helper()
	c.Open = true
	return runEntry(t, c, events)
}

// runEntry is startEntryWith for an entry that need not be open.
func runEntry(t testing.TB, c Config, events string) (url string, e *Entry) {
	t.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	log, err := journal.Open(journal.Config{Dir: events, Node: "edge", Logger: c.Logger})
	if err != nil {
		t.Fatal(err)
	}
	c.Node, c.Keys, c.Log, c.Metrics = "edge", hop.RandomKeys(), log, metrics.NewRegistry()
	if e, err = New(c); err != nil {
		t.Fatal(err)
	}
	ln, err := server.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- e.Run(ctx) }()
	go func() { ended <- e.Serve(ln) }()
	t.Cleanup(func() {
		now, stop := context.WithCancel(ctx)
		stop()
		err := e.Shutdown(now, server.DrainTimings{})
		cancel()
		if err := errors.Join(err, <-ended, <-ended, log.Close()); err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String(), e
}

// retries is how many the entry has counted.
func retries(t *testing.T, metrics *metrics.Registry) float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "colonnade_retries_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("there is no count of retries")
	return 0
}

func tableOf(t testing.TB, documents string) *fleet.Table {
	t.Helper()
	split, err := document.SplitFile([]byte(documents))
	if err != nil {
		t.Fatal(err)
	}
	all := document.NewSet()
	for _, d := range split {
		if err := all.Put(d.Key, d.Value, 1); err != nil {
			t.Fatal(err)
		}
	}
	return all.Table()
}

// colo is the documents of a colo whose only server is a handler.
func colo(t testing.TB, name string, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return fmt.Sprintf("---\nkey: colos/%s\nregion: eu\n---\nkey: servers/%[1]s/%[1]s-1\naddress: %s\nboot: x\n",
		name, strings.TrimPrefix(server.URL, "http://"))
}

const request = `{"model":"m","messages":[]}`

func chat(t *testing.T, url, body string) (status int, answer string) {
	t.Helper()
	return post(t, url+"/v1/chat/completions", body)
}

func post(t *testing.T, url, body string) (status int, answer string) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// An answer of a colo that has not believed or not read the request is no engine's answer: another colo is tried, and no client sees the
// answer.
func TestAnswerOfNoEngine(t *testing.T) {
	const model = "key: models/m\nrouting: {steps: [{colos: [ams]}, {colos: [fra]}]}\n"
	served := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(hop.HeaderAttempts, "1")
		_, _ = io.WriteString(w, `{"served":true}`)
	}
	for _, plain := range []int{400, 403, 408, 413, 200} {
		refused := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(plain) }
		status, answer := chat(t, startEntry(t, tableOf(t, model+colo(t, "ams", refused)+colo(t, "fra", served))), request)
		if status != 200 || answer != `{"served":true}` {
			t.Errorf("one colo answers a plain %d: %d %s", plain, status, answer)
		}
		status, answer = chat(t, startEntry(t, tableOf(t, model+colo(t, "ams", refused)+colo(t, "fra", refused))), request)
		want, word := 502, "engine_error"
		if plain == 400 { // so does a port that speaks TLS: the request was not read
			want, word = 503, "no_server"
		}
		if status != want || !strings.Contains(answer, word) {
			t.Errorf("both colos answer a plain %d: %d %s", plain, status, answer)
		}
	}
}

// A verdict that cannot be read is a lost server's, which costs a further try what any error costs.
func TestVerdictThatCannotBeRead(t *testing.T) {
	var asked atomic.Int64
	documents := "key: models/m\nretry: {errors: 9}\n"
	for _, name := range []string{"ams", "bru", "cph", "dub", "fra", "gva", "hel"} {
		documents += colo(t, name, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set(hop.HeaderVerdict, "nonsense")
			w.WriteHeader(503)
		})
	}
	table := tableOf(t, documents)
	url, metrics := startEntryBy(t, func() *fleet.Table { return table })
	if status, answer := chat(t, url, request); status != 502 {
		t.Errorf("answer %d %s", status, answer)
	}
	if n := asked.Load(); n != 5 { // the first, one that is forgiven, and three of the budget
		t.Errorf("%d colos were asked", n)
	}
	if n := retries(t, metrics); n != 3 {
		t.Errorf("%v retries are counted", n)
	}
}

// A body is passed over that is unwanted by the head. If another table has come before the handler looks, what was sent
// is not taken for an empty body.
func TestTableThatChangesBehindTheHead(t *testing.T) {
	small := tableOf(t, "key: models/m\nmax_body: 64KiB\n")
	large := tableOf(t, "key: models/m\nmax_body: 1MiB\n")
	var asked atomic.Int64
	url, _ := startEntryBy(t, func() *fleet.Table {
		if asked.Add(1) == 1 {
			return small
		}
		return large
	})
	status, answer := chat(t, url, `{"model":"m","messages":[],"user":"`+strings.Repeat("x", 128<<10)+`"}`)
	if status != 503 || !strings.Contains(answer, "unavailable") {
		t.Errorf("answer %d %s", status, answer)
	}
	if status, answer = chat(t, url, ""); status != 400 || !strings.Contains(answer, "empty") {
		t.Errorf("a body that is empty: %d %s", status, answer)
	}
}

func tableFunc(table *fleet.Table) func() *fleet.Table {
	return func() *fleet.Table { return table }
}
