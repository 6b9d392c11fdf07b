package query_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/analytics/query"
	"colonnade/internal/testkit"
)

// awkward are values of fields, some of which look like JSON or like other fields.
var awkward = []string{
	"", "a", "acme", "acm", "acme2", `"`, `\`, `","account":"acme`, `"account":"acme"`, "ä", "\x00", "<b>", "end", "request", "0123abcd", "0123abcd4567", "x-0123abcd",
	"request_id", "\xff", `acme","x`,
}

func pick(r *rand.Rand) string { return awkward[r.IntN(len(awkward))] }

func randomEvent(r *rand.Rand) analytics.Event {
	kinds := []analytics.Kind{analytics.KindRequest, analytics.KindInference, analytics.KindForward}
	phases := []analytics.Phase{analytics.PhaseBegin, analytics.PhaseEnd}
	return analytics.Event{
		EventID: pick(r), RequestID: pick(r), ClientRequestID: pick(r), Kind: kinds[r.IntN(3)], Phase: phases[r.IntN(2)],
		Time: time.Unix(int64(r.IntN(4)), int64(r.IntN(2))).UTC(), Node: pick(r), ColoPath: []string{pick(r), pick(r)}, Account: pick(r), Key: pick(r),
		Model: pick(r), Endpoint: pick(r), Outcome: analytics.Outcome(pick(r)), Reason: pick(r), Code: pick(r),
	}
}

func randomFilter(r *rand.Rand) (f query.Filter) {
	sometimes := func(s string) string {
		if r.IntN(3) > 0 {
			return ""
		}
		return s
	}
	f = query.Filter{
		Account: sometimes(pick(r)), Key: sometimes(pick(r)), Model: sometimes(pick(r)), Node: sometimes(pick(r)), Kind: sometimes("request"),
		Outcome: sometimes(pick(r)), Request: sometimes(pick(r)), Begins: r.IntN(2) == 0,
	}
	if r.IntN(3) == 0 {
		f.Since = time.Unix(2, 0)
	}
	if r.IntN(3) == 0 {
		f.Until = time.Unix(3, 1)
	}
	return f
}

// selects compares the fields of a decoded event.
func selects(f *query.Filter, e *analytics.Event) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	own := len(f.Request) >= query.MinPrefix && strings.Trim(f.Request, "0123456789abcdef") == "" && strings.HasPrefix(e.RequestID, f.Request)
	return is(f.Account, e.Account) && is(f.Key, e.Key) && is(f.Model, e.Model) && is(f.Node, e.Node) && is(f.Kind, string(e.Kind)) &&
		is(f.Outcome, string(e.Outcome)) && (is(f.Request, e.RequestID) || is(f.Request, e.ClientRequestID) || own) &&
		(f.Begins || e.Phase == analytics.PhaseEnd) && !e.Time.Before(f.Since) && (f.Until.IsZero() || e.Time.Before(f.Until))
}

// jsonOf returns the JSON of an event as the journal writes it.
func jsonOf(t testing.TB, e *analytics.Event) []byte {
	t.Helper()
	dir := t.TempDir()
	l, err := journal.Open(journal.Config{Dir: dir, Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	l.Append(e)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "events", "n", "*.log"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	line, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return line[9 : len(line)-1]
}

// A filter on the JSON selects the same events as one on their fields, also where values look like JSON.
func TestFilterEqualsFields(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(testkit.Seed(t), 1))
	selected := 0
	for range 300 {
		e := randomEvent(r)
		if e.Node == "" {
			e.Node = "n"
		}
		line := jsonOf(t, &e)
		for range 100 {
			f := randomFilter(r)
			got, want := f.Matcher()(line), selects(&f, &e)
			if got != want {
				t.Fatalf("%+v\nselects %s: %v, want %v", f, line, got, want)
			}
			if got {
				selected++
			}
		}
	}
	if selected < 100 {
		t.Errorf("only %d were selected", selected)
	}
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", 3600)
	now := time.Date(2026, 11, 23, 3, 4, 5, 6, zone)
	f := func(text, want string) {
		t.Helper()
		got, err := query.ParseTime(text, now)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: got %v, %v, want %s", text, got, err, want)
		}
	}
	f("now", "2026-11-23T03:04:05+01:00")
	f("today", "2026-11-23T00:00:00+01:00")
	f("yesterday", "2026-11-22T00:00:00+01:00")
	f("90m", "2026-11-23T01:34:05+01:00")
	f("2d", "2026-11-21T03:04:05+01:00")
	f("1d12h", "2026-11-21T15:04:05+01:00")
	f("2026-11-01", "2026-11-01T00:00:00+01:00")
	f("2026-11-01 14:30", "2026-11-01T14:30:00+01:00")
	f("2026-11-01T14:30:10", "2026-11-01T14:30:10+01:00")
	f("2026-11-01T14:30:10Z", "2026-11-01T14:30:10Z")
	f("02:30", "2026-11-23T02:30:00+01:00")
	f("02:30:15", "2026-11-23T02:30:15+01:00")
	bad := func(text string) {
		t.Helper()
		if got, err := query.ParseTime(text, now); err == nil || !strings.Contains(err.Error(), "is no time; examples") {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "-1h", "d", "NaNd", "Infd", "-1d", "99999999d", "2026-13-01", "25:00", "12", "1e3"} {
		bad(text)
	}
}

// A request is named by its whole id, by the first eight characters of that or more, or by the client's id, as a whole.
func TestFilterOfARequest(t *testing.T) {
	t.Parallel()
	line := jsonOf(t, &analytics.Event{RequestID: "0123abcd4567", ClientRequestID: "89abcdef-1", Phase: analytics.PhaseEnd})
	f := func(request string, want bool) {
		t.Helper()
		if got := (&query.Filter{Request: request}).Matcher()(line); got != want {
			t.Errorf("%s: got %v", request, got)
		}
	}
	f("0123abcd4567", true)
	f("0123abcd", true)
	f("89abcdef-1", true)
	f("0123abc", false)
	f("123abcd4", false)
	f("89abcdef", false)
}
