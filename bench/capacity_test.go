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
	s := func(ms ...time.Duration) (all []span) {
		for i := range len(ms) - 1 {
			all = append(all, span{ms[i] * time.Millisecond, ms[i+1] * time.Millisecond})
		}
		return all
	}
	answers := [][]span{s(0, 100, 200, 300, 400, 500), s(0, 200, 400, 600)}
	for _, until := range []time.Duration{350, 399, 400, 401} {
		rate, each := together(answers, span{100 * time.Millisecond, until * time.Millisecond})
		if math.Abs(rate-15) > 1e-9 || each != 1100*time.Millisecond/8 {
			t.Errorf("until %d: %v per second, each %v; want 15 and 137.5 ms", until, rate, each)
		}
	}
	if rate, each := together([][]span{nil, nil}, span{0, time.Second}); rate != 0 || each != 0 {
		t.Errorf("nothing was answered: %v, %v", rate, each)
	}
}

func TestEventsOfAnAnswer(t *testing.T) {
	for _, c := range []struct {
		e    events
		want float64
	}{{events{15, 17}, 102}, {events{15, 15}, 100}, {events{20, 10}, 50}, {events{15, 0}, 100}} {
		if got := c.e.of(100); got != c.want {
			t.Errorf("%+v: %v, want %v", c.e, got, c.want)
		}
	}
}

// Goodput that cannot be says that capacity is not known, and then all marks are there, but not measured.
func TestNoVerdictWithoutCapacity(t *testing.T) {
	c := load()
	for goodput, judged := range map[float64]bool{1.05: true, 1.2: false} {
		f := finding{by: &Gateway{Name: "remote", Judged: true}, got: map[string][]float64{}}
		f.reachGoodput(0.97, 0.97)
		f.reachGoodput(0.98, goodput)
		f.reachGoodput(0.98, goodput)
		marks := c.judge(f, false)
		if len(marks) != len(c.marks) || marks[0].Got.Measured() != judged || marks[0].Passed != judged || (len(f.notes) == 0) != judged || len(f.notes) > 1 {
			t.Errorf("goodput %v: marks %+v, notes %q", goodput, marks, f.notes)
		}
	}
	if f := (finding{by: &Gateway{}, got: map[string][]float64{}}); len(f.notes) == 0 {
		f.reachGoodput(1, 1.37)
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
	a := &arena{client: client, ids: &ids{}, gateway: &Gateway{Name: "g"}, tell: func(string, string) {}}
	rate, err := climb(context.Background(), a, shape{tokens: 21, input: 8}, []string{"k"}, 50*time.Millisecond)
	// Each answer takes 40 ms, so that no more than 200 a second can be; the machine may be slow.
	if err != nil || rate < 60 || rate > 215 {
		t.Errorf("%v answers per second, %v; want about 200", rate, err)
	}
	if a.events.came < 21 {
		t.Errorf("an answer of 21 tokens had %d events", a.events.came)
	}
}
