package analytics_test

import (
	"encoding/json"
	"reflect"
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
	if len(ids) != 16 {
		t.Errorf("16 different events have %d ids", len(ids))
	}
}

// fill sets every field, so that a field that the encoder forgets is noticed.
func fill(v reflect.Value, text string) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(text)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i+1) * 1_234_000)
		case reflect.Float64:
			f.SetFloat(float64(i) + 0.125)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{text, "b"}))
		case reflect.Struct:
			f.Set(reflect.ValueOf(time.Date(2026, 2, 3, 4, 5, 6, 7000, time.UTC)))
		default:
			panic("field of a kind this test does not know: " + v.Type().Field(i).Name)
		}
	}
}

func TestAppendJSONIsEncodingJSON(t *testing.T) {
	f := func(e analytics.Event) {
		t.Helper()
		want, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.AppendJSON(nil); string(got) != string(want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	f(analytics.Event{})
	for _, text := range []string{"plain", `quote " and \`, "line\nbreak", "a<b>&c", "grün\u2028", "bad \xff utf-8", "\x00\x7f"} {
		var e analytics.Event
		fill(reflect.ValueOf(&e).Elem(), text)
		f(e)
	}
	for _, cost := range []float64{1e-7, -1e-7, 1e21, 0.1, -3, 1e20} {
		f(analytics.Event{Cost: cost})
	}
}

func FuzzAppendJSON(f *testing.F) {
	f.Add("id", "model", 1.5, int64(1500))
	f.Fuzz(func(t *testing.T, id, model string, cost float64, d int64) {
		e := analytics.Event{EventID: id, Model: model, Cost: cost, RequestTime: analytics.Milliseconds(d)}
		got := e.AppendJSON(nil)
		want, err := json.Marshal(e)
		if err != nil {
			return // a cost that JSON cannot say
		}
		if string(got) != string(want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
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
	f(90*time.Minute+time.Microsecond, "5400000.001")
	if err := json.Unmarshal([]byte(`"1s"`), new(analytics.Milliseconds)); err == nil {
		t.Error("a string was read as milliseconds")
	}
}
