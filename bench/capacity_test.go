package bench

import (
	"context"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"colonnade/internal/simengine"
)

// Two clients, of which each is always being answered: what counts is not how many rounds end in the window.
func TestTogether(t *testing.T) {
	s := func(ms ...time.Duration) (all []interval) {
		for i := range len(ms) - 1 {
			all = append(all, interval{ms[i] * time.Millisecond, ms[i+1] * time.Millisecond})
		}
		return all
	}
	answers := [][]interval{s(0, 100, 200, 300, 400, 500), s(0, 200, 400, 600)}
	for _, until := range []time.Duration{350, 399, 400, 401} {
		rate, each := rateIn(answers, interval{100 * time.Millisecond, until * time.Millisecond})
		if math.Abs(rate-15) > 1e-9 || each != 1100*time.Millisecond/8 {
			t.Errorf("until %d: %v per second, each %v; want 15 and 137.5 ms", until, rate, each)
		}
	}
	if rate, each := rateIn([][]interval{nil, nil}, interval{0, time.Second}); rate != 0 || each != 0 {
		t.Errorf("nothing was answered: %v, %v", rate, each)
	}
}

func TestEventsOfAnAnswer(t *testing.T) {
	for _, c := range []struct {
		e    streamEvents
		want float64
	}{{streamEvents{15, 17}, 102}, {streamEvents{15, 15}, 100}, {streamEvents{20, 10}, 50}, {streamEvents{15, 0}, 100}} {
		if got := c.e.expected(100); got != c.want {
			t.Errorf("%+v: %v, want %v", c.e, got, c.want)
		}
	}
}

// Goodput that cannot be says that capacity is not known, and then all marks are there, but not measured.
func TestNoVerdictWithoutCapacity(t *testing.T) {
	c := loadScenario()
	for goodput, judged := range map[float64]bool{1.05: true, 1.2: false} {
		f := findings{gateway: &Gateway{Name: "remote", Judged: true}, measured: map[string][]float64{}}
		f.observeGoodput(0.97, 0.97)
		f.observeGoodput(0.98, goodput)
		f.observeGoodput(0.98, goodput)
		marks := c.judge(f, false)
		if len(marks) != len(c.thresholds) || marks[0].Got.Measured() != judged || marks[0].Passed != judged || (len(f.notes) == 0) != judged || len(f.notes) > 1 {
			t.Errorf("goodput %v: marks %+v, notes %q", goodput, marks, f.notes)
		}
	}
	if f := (findings{gateway: &Gateway{}, measured: map[string][]float64{}}); len(f.notes) == 0 {
		f.observeGoodput(1, 1.37)
		if len(f.notes) != 1 || !strings.Contains(f.notes[0], "too low, since goodput came to 137 % of it: no verdict") {
			t.Errorf("notes %q", f.notes)
		}
	}
}

// A gateway that grows by steps: eight slots, of which more than one client at a time is needed.
func TestClimb(t *testing.T) {
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
	a := &runner{client: client, ids: &idSource{}, gateway: &Gateway{Name: "g"}, progress: func(string, string) {}}
	rate, err := searchCapacity(context.Background(), a, requestShape{tokens: 21, input: 8}, []string{"k"}, 50*time.Millisecond)
	// Each answer takes 40 ms, so that no more than 200 a second can be; the machine may be slow.
	if err != nil || rate < 60 || rate > 215 {
		t.Errorf("%v answers per second, %v; want about 200", rate, err)
	}
	if a.events.received < 21 {
		t.Errorf("an answer of 21 tokens had %d events", a.events.received)
	}
}
