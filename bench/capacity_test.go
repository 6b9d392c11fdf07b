package bench

import (
	"math"
	"net/http/httptest"
	"testing"
	"time"

	"colonnade/internal/simengine"
)

// Two clients are always being answered: the rate does not depend on how many rounds end in the window.
func TestSharedRate(t *testing.T) {
	s := func(ms ...time.Duration) (all []interval) {
		for i := range len(ms) - 1 {
			all = append(all, interval{ms[i] * time.Millisecond, ms[i+1] * time.Millisecond})
		}
		return all
	}
	answers := [][]interval{s(0, 100, 200, 300, 400, 500), s(0, 200, 400, 600)}
	for _, until := range []time.Duration{350, 399, 400, 401} {
		rate, each := sharedRate(answers, interval{100 * time.Millisecond, until * time.Millisecond})
		if math.Abs(rate-15) > 1e-9 || each != 1100*time.Millisecond/8 {
			t.Errorf("until %d: %v per second, each %v; want 15 and 137.5 ms", until, rate, each)
		}
	}
	if rate, each := sharedRate([][]interval{nil, nil}, interval{0, time.Second}); rate != 0 || each != 0 {
		t.Errorf("nothing was answered: %v, %v", rate, each)
	}
}

func TestExpectedEvents(t *testing.T) {
	for _, c := range []struct {
		e    streamEvents
		want float64
	}{{streamEvents{15, 17}, 102}, {streamEvents{15, 15}, 100}, {streamEvents{20, 10}, 50}, {streamEvents{15, 0}, 100}} {
		if got := c.e.expected(100); got != c.want {
			t.Errorf("%+v: %v, want %v", c.e, got, c.want)
		}
	}
}

// The search finds eight slots, which takes several clients.
func TestSearchCapacity(t *testing.T) {
	t.Parallel()
	engine := simengine.New(simengine.Config{Slots: 8, TTFT: 20 * time.Millisecond, ITL: time.Millisecond})
	own := httptest.NewServer(engine)
	t.Cleanup(func() {
		engine.Close()
		own.Close()
	})
	client, err := newClient(own.URL+"/v1", "m")
	if err != nil {
		t.Fatal(err)
	}
	defer client.conns.close()
	r := &runner{client: client, ids: &idSource{}, gateway: &Gateway{Name: "g"}, progress: func(string, string) {}}
	rate, err := searchCapacity(t.Context(), r, closedLoad{shape: requestShape{tokens: 21, input: 8}, keys: []string{"k"}, lasts: 50 * time.Millisecond})
	// Each answer takes 40 ms, so there are at most 200 per second; the machine may be slow.
	if err != nil || rate < 60 || rate > 215 {
		t.Errorf("%v answers per second, %v; want about 200", rate, err)
	}
	if r.events.received < 21 {
		t.Errorf("an answer of 21 tokens had %d events", r.events.received)
	}
}
