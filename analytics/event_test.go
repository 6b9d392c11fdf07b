package analytics_test

import (
	"encoding/json"
	"testing"
	"time"

	"colonnade/analytics"
)

func TestEventID(t *testing.T) {
	ids := map[string]bool{}
	for _, request := range []string{"r", "r1"} {
		for _, node := range []string{"n", "1n"} {
			for _, attempt := range []int{0, 1} {
				for _, kind := range []analytics.Kind{analytics.KindRequest, analytics.KindInference} {
					id := analytics.EventID(request, node, attempt, kind)
					if id != analytics.EventID(request, node, attempt, kind) {
						t.Fatal("the same values gave two ids")
					}
					ids[id] = true
				}
			}
		}
	}
	ids[analytics.IncidentID("r", "n", 1)] = true
	ids[analytics.IncidentID("r", "n", 2)] = true
	ids[analytics.IncidentID("r", "o", 1)] = true
	if len(ids) != 19 {
		t.Errorf("19 different events have %d ids", len(ids))
	}
}

func TestMilliseconds(t *testing.T) {
	f := func(d time.Duration, want string) {
		t.Helper()
		b, err := json.Marshal(analytics.Milliseconds(d))
		if err != nil || string(b) != want {
			t.Errorf("%v: got %s, %v, want %s", d, b, err, want)
		}
		var back analytics.Milliseconds
		if err := json.Unmarshal(b, &back); err != nil || back.Std() != d.Round(time.Microsecond) {
			t.Errorf("%v came back as %v, %v", d, back.Std(), err)
		}
	}
	f(0, "0")
	f(time.Second, "1000")
	f(1500*time.Microsecond, "1.5")
	f(1234567*time.Nanosecond, "1.235")
	f(10*time.Microsecond, "0.01")
	f(120*time.Microsecond, "0.12")
	f(-2100*time.Microsecond, "-2.1")
	f(90*time.Minute+time.Microsecond, "5400000.001")
	if err := json.Unmarshal([]byte(`"1s"`), new(analytics.Milliseconds)); err == nil {
		t.Error("a string was read as milliseconds")
	}
}

func BenchmarkEventID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		analytics.EventID("0123456789abcdef0123456789abcdef", "ams-1", 1, analytics.KindInference)
	}
}
