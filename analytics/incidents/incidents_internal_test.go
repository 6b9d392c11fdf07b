package incidents

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

// noticed is the time of the incidents.
var noticed = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// workerDocument is the document of a worker with the incidents of some numbers.
func workerDocument(colo, boot string, numbers ...int) string {
	var all []string
	for _, n := range numbers {
		all = append(all, fmt.Sprintf(`{"number":%d,"time":%q,"kind":"gpu_xid","gpu":"GPU-1","detail":"Xid 79"}`, n, noticed.Format(time.RFC3339)))
	}
	return fmt.Sprintf(`{"colo":%q,"boot":%q,"machine":"gpu-7","engine":{"endpoint":"e","pool":"p","url":"http://h:1","state":"serving"},"incidents":[%s]}`,
		colo, boot, strings.Join(all, ","))
}

func tableOf(t *testing.T, docs ...string) *fleet.Table {
	t.Helper()
	set := document.NewSet()
	for i := 0; i+1 < len(docs); i += 2 {
		if err := set.Put(docs[i], []byte(docs[i+1]), 1); err != nil {
			t.Fatal(err)
		}
	}
	return set.Table()
}

// reporter is one server that reports incidents, and what it has written.
type reporter struct {
	*Reporter
	events []analytics.Event
}

func newReporter(node string) *reporter {
	r := &reporter{}
	r.Reporter = New(Config{Colo: "ams", Node: node, Append: func(e *analytics.Event) { r.events = append(r.events, *e) }})
	return r
}

// wrote reports a table, and compares how many events the server has written for it.
func (r *reporter) wrote(t *testing.T, what string, want int, table *fleet.Table, after time.Duration) {
	t.Helper()
	before := len(r.events)
	r.report(table, noticed.Add(after))
	if got := len(r.events) - before; got != want {
		t.Errorf("%s: %s has written %d events, want %d", what, r.config.Node, got, want)
	}
}

const twoServers = `{"address":"h:1","boot":"x","protocol":{"min":1,"max":9}`

// Each incident is written once by a process: by the home of the pool, and by the next home with the same id and time.
func TestIncidentsAreWrittenByTheHome(t *testing.T) {
	t.Parallel()
	servers := func(a, b, worker string) *fleet.Table {
		return tableOf(t, "servers/ams/a", twoServers+a+"}", "servers/ams/b", twoServers+b+"}", "workers/w", worker,
			"endpoints/ams/e", `{"url":"http://h:1","pool":"p","engine":"sglang"}`)
	}
	both := servers("", "", workerDocument("ams", "1", 1, 2))
	first, second := newReporter("a"), newReporter("b")
	first.report(both, noticed)
	second.report(both, noticed)
	if len(first.events)+len(second.events) != 2 || len(first.events) == 1 {
		t.Fatalf("two servers have written %d and %d events of two incidents", len(first.events), len(second.events))
	}
	home, other, drain := first, second, [2]string{`,"state":"draining"`, ""}
	if len(first.events) == 0 {
		home, other, drain = second, first, [2]string{"", `,"state":"draining"`}
	}
	home.wrote(t, "the same table", 0, both, 0)
	home.wrote(t, "another colo's", 0, servers("", "", workerDocument("fra", "1", 1, 2, 3)), 0)
	home.wrote(t, "another incident", 1, servers("", "", workerDocument("ams", "1", 2, 3)), 0)
	home.wrote(t, "another process", 1, servers("", "", workerDocument("ams", "2", 1)), 0)
	home.wrote(t, "without the worker", 0, tableOf(t), 0)
	home.wrote(t, "the worker again", 0, servers("", "", workerDocument("ams", "2", 1)), 0)

	moved := servers(drain[0], drain[1], workerDocument("ams", "1", 1, 2))
	home.wrote(t, "no home any more", 0, moved, 0)
	other.wrote(t, "the new home", 2, moved, time.Hour)
	for i, e := range other.events {
		if fmt.Sprint(e) != fmt.Sprint(home.events[i]) {
			t.Errorf("the new home has written\n%+v\nafter\n%+v", e, home.events[i])
		}
	}
	want := analytics.Event{
		EventID: analytics.IncidentID("w", "1", 1), Kind: analytics.KindEngine, Phase: analytics.PhaseEnd, Time: noticed, ColoID: "ams", Pool: "p", Endpoint: "e",
		Engine: "sglang", Worker: "w", Machine: "gpu-7", GPU: "GPU-1", Reason: "gpu_xid", Detail: "Xid 79",
	}
	if got := home.events[0]; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// A worker cannot fill the journal, and a server that starts does not repeat what is long past.
func TestIncidentsAreBounded(t *testing.T) {
	t.Parallel()
	r := newReporter("a")
	r.wrote(t, "long past", 0, tableOf(t, "workers/old", workerDocument("ams", "1", 1, 2)), maxAge)
	flood := func(from int) *fleet.Table {
		var numbers []int
		for n := from; n < from+fleet.MaxIncidents; n++ {
			numbers = append(numbers, n)
		}
		return tableOf(t, "workers/w", workerDocument("ams", "1", numbers...))
	}
	total := 0
	for n := range 100 {
		r.report(flood(1+n*fleet.MaxIncidents), noticed)
		total += fleet.MaxIncidents
	}
	if len(r.events) != 2*fleet.MaxIncidents {
		t.Errorf("%d of %d incidents at once were written, want %d", len(r.events), total, 2*fleet.MaxIncidents)
	}
	r.wrote(t, "what the document still has", fleet.MaxIncidents, flood(1+99*fleet.MaxIncidents), time.Minute)
}

// Workers with ever new names cannot fill the journal, and what waits is written later.
func TestIncidentsOfManyWorkersAreBounded(t *testing.T) {
	t.Parallel()
	r := newReporter("a")
	var last *fleet.Table
	for n := range 100 {
		name := fmt.Sprint("workers/w", n)
		last = tableOf(t, name, workerDocument("ams", "1", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16))
		r.report(last, noticed)
	}
	if len(r.events) != keyBurst {
		t.Errorf("%d incidents at once were written, want %d", len(r.events), keyBurst)
	}
	r.wrote(t, "what the last document still has", fleet.MaxIncidents, last, time.Minute)
}

// The workers of one API key neither silence those of others nor use up what these have.
func TestIncidentsOfAKeyAreBounded(t *testing.T) {
	t.Parallel()
	r := newReporter("a")
	marked := func(mark, boot string, from int) string {
		var numbers []int
		for n := range fleet.MaxIncidents {
			numbers = append(numbers, from+n)
		}
		return strings.Replace(workerDocument("ams", boot, numbers...), "{", `{"registered_by":"`+mark+`",`, 1)
	}
	flood := func(n int, honest ...string) *fleet.Table {
		var docs []string
		for i := range 100 {
			docs = append(docs, fmt.Sprint("workers/a", i), marked("bad 1", fmt.Sprint("b", n), 1))
		}
		return tableOf(t, append(docs, honest...)...)
	}
	r.wrote(t, "a flood", keyBurst, flood(0), 0)
	r.wrote(t, "a worker of another key beside it", fleet.MaxIncidents, flood(1, "workers/z", marked("good 2", "1", 1)), 0)
	r.wrote(t, "a worker without a key beside it", fleet.MaxIncidents, flood(2, "workers/y", workerDocument("ams", "1", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)), 0)

	own := r.written["a99"].pace
	if before := own.TokensAt(noticed); before != 2*fleet.MaxIncidents {
		t.Errorf("tries that have failed have left %v tokens of a worker", before)
	}
}
