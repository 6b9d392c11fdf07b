package query_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/query"
	"colonnade/internal/testkit"
)

// usedEvent is a random event of few accounts, models and days.
func usedEvent(r *rand.Rand, n int) analytics.Event {
	outcomes := append(slices.Clone(query.Outcomes), analytics.OutcomeCompleted, analytics.OutcomeCompleted)
	e := analytics.Event{
		EventID: analytics.EventID("r", "n", n, analytics.KindInference), RequestID: fmt.Sprint(n), Kind: query.Kinds[r.IntN(len(query.Kinds))], Phase: analytics.PhaseEnd,
		Time: time.Date(2026, 11, 20+r.IntN(3), r.IntN(24), 0, 0, 0, time.UTC), Node: fmt.Sprint("n", r.IntN(3)), Account: fmt.Sprint("a", r.IntN(4)),
		Model: fmt.Sprint("m", r.IntN(3)), Outcome: outcomes[r.IntN(len(outcomes))],
	}
	if r.IntN(4) > 0 {
		e.Pool = "p"
	}
	if e.Kind == analytics.KindInference && e.Outcome != analytics.OutcomeCrashed {
		e.PromptTokens, e.CompletionTokens, e.CachedTokens, e.TokensEstimated = r.IntN(100), r.IntN(100), r.IntN(10), r.IntN(3)
		e.AudioSeconds, e.Cost, e.CostUnit = r.Float64(), r.Float64(), []string{"neurons", "EUR"}[r.IntN(2)]
	}
	return e
}

// naive sums up events by account, model and day: the real end of each id, or else its crashed one.
func naive(events []analytics.Event, zone *time.Location) map[string]*query.Counts {
	ends := map[string]analytics.Event{}
	for _, e := range events {
		known, ok := ends[e.EventID]
		if e.Phase == analytics.PhaseEnd && (!ok || known.Outcome == analytics.OutcomeCrashed) {
			ends[e.EventID] = e
		}
	}
	rows := map[string]*query.Counts{}
	for _, e := range ends {
		if e.Kind == analytics.KindForward || e.Kind == analytics.KindEngine {
			continue
		}
		model := e.Model
		if e.Pool == "" {
			model = "-"
		}
		key := e.Account + " " + model + " " + e.Time.In(zone).Format(time.DateOnly)
		c := rows[key]
		if c == nil {
			c = &query.Counts{Cost: map[string]float64{}}
			rows[key] = c
		}
		if e.Kind == analytics.KindInference {
			c.Inferences++
			c.PromptTokens += int64(e.PromptTokens)
			c.CompletionTokens += int64(e.CompletionTokens)
			c.CachedTokens += int64(e.CachedTokens)
			c.TokensEstimated += int64(e.TokensEstimated)
			c.AudioSeconds += e.AudioSeconds
			if e.Cost > 0 {
				c.Cost[e.CostUnit] += e.Cost
			}
			continue
		}
		c.Requests++
		switch e.Outcome {
		case analytics.OutcomeRefused:
			c.Refused++
		case analytics.OutcomeClientGone:
			c.ClientGone++
		case analytics.OutcomeCompleted:
		default:
			c.Failed++
		}
	}
	return rows
}

func equalCounts(a, b *query.Counts) bool {
	close := func(x, y float64) bool { return math.Abs(x-y) < 1e-9*(1+math.Abs(x)) }
	x, y := *a, *b
	x.Cost, y.Cost, x.AudioSeconds, y.AudioSeconds = nil, nil, 0, 0
	return fmt.Sprint(x) == fmt.Sprint(y) && close(a.AudioSeconds, b.AudioSeconds) && maps.EqualFunc(a.Cost, b.Cost, close)
}

// Usage equals a naive sum, however events repeat: begins, duplicates, ends of crashes before and after the real ones.
func TestUsageEqualsANaiveSum(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(testkit.Seed(t), 2))
	zone := time.FixedZone("", 5*3600)
	for range testkit.AtScale(50, 1000) {
		var events []analytics.Event
		for n := range r.IntN(200) {
			e := usedEvent(r, n)
			events = append(events, e)
			if r.IntN(4) == 0 {
				events = append(events, e)
			}
			if r.IntN(4) == 0 {
				begin := e
				begin.Phase, begin.Outcome = analytics.PhaseBegin, ""
				events = append(events, begin)
			}
			if r.IntN(6) == 0 { // the end of a crash, with nothing that was used
				crash := analytics.Event{
					EventID: e.EventID, Kind: e.Kind, Phase: analytics.PhaseEnd, Time: e.Time, Node: e.Node, Account: e.Account, Model: e.Model, Pool: e.Pool,
					Outcome: analytics.OutcomeCrashed,
				}
				events = append(events, crash)
			}
		}
		want := naive(events, zone)
		r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		u := query.NewUsage([]string{"account", "model", "day"}, zone)
		for i := range events {
			line, err := json.Marshal(&events[i])
			if err != nil {
				t.Fatal(err)
			}
			if err := u.Add(line); err != nil {
				t.Fatal(err)
			}
		}
		u.EndNode()
		rows := u.Rows()
		if len(rows) != len(want) {
			t.Fatalf("%d rows, want %d", len(rows), len(want))
		}
		for i := range rows {
			group := rows[i].Group
			if w := want[group[0]+" "+group[1]+" "+group[2]]; w == nil || !equalCounts(&rows[i].Counts, w) {
				t.Fatalf("%v: got %+v, want %+v", group, rows[i].Counts, w)
			}
		}
		total, all := query.Total(rows), 0
		for _, w := range want {
			all += w.Requests + w.Inferences
		}
		if total.Requests+total.Inferences != all {
			t.Errorf("the total is %d, want %d", total.Requests+total.Inferences, all)
		}
	}
}

// Servers on the paths of requests, of which no event was added, are named.
func TestUsageNamesServersWithoutEvents(t *testing.T) {
	t.Parallel()
	u := query.NewUsage(nil, time.UTC)
	add := func(e analytics.Event) {
		t.Helper()
		e.Phase = analytics.PhaseEnd
		line, err := json.Marshal(&e)
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Add(line); err != nil {
			t.Fatal(err)
		}
	}
	add(analytics.Event{EventID: "1", Kind: analytics.KindRequest, Node: "edge-1", ColoPath: []string{"ams/ams-1", "fra/fra-1", "ams/ams-1"}})
	add(analytics.Event{EventID: "2", Kind: analytics.KindInference, Node: "ams-1"})
	if got := u.Unread(); !slices.Equal(got, []string{"fra/fra-1"}) {
		t.Errorf("got %v", got)
	}
	if err := u.Add([]byte("{")); err == nil {
		t.Error("no error for a line that is no JSON")
	}
}
