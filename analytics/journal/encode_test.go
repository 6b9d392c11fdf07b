package journal

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/testkit"
)

// An event is encoded as encoding/json encodes it, whatever its fields are.
func TestEncodeEqualsEncodingJSON(t *testing.T) {
	seed := testkit.Seed(t)
	random := rand.New(rand.NewPCG(seed, seed))
	f := func(e analytics.Event) {
		t.Helper()
		want, err := json.Marshal(&e)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendEvent(nil, &e); string(got) != string(want) {
			t.Errorf("encoded as\n%s\nwant\n%s", got, want)
		}
	}
	f(analytics.Event{})
	for range 2000 {
		var e analytics.Event
		v := reflect.ValueOf(&e).Elem()
		for i := range v.NumField() {
			if random.IntN(2) == 0 {
				setRandomly(v.Field(i), random)
			}
		}
		f(e)
	}
}

func setRandomly(v reflect.Value, random *rand.Rand) {
	texts := []string{"", "llama-3.1-8b", `a "b"\`, "<ä>\x00", "\xff", "line\nbreak", "x y"}
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(random.Int64N(1<<33), random.Int64N(1e9)).UTC()))
	case []string:
		v.Set(reflect.ValueOf([]string{texts[random.IntN(len(texts))], "b"}))
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString(texts[random.IntN(len(texts))])
		case reflect.Int, reflect.Int64:
			v.SetInt(random.Int64N(1<<40) - 1<<20)
		case reflect.Float64:
			v.SetFloat([]float64{1e-9, 0.5, 3, 1e25, -2.25, math.MaxFloat64}[random.IntN(6)])
		case reflect.Bool:
			v.SetBool(true)
		default:
			panic("a field of another kind: " + v.Kind().String())
		}
	}
}
