package cost

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"colonnade/internal/testkit"
	_ "colonnade/onebox" // see testkit.Binary
)

func TestMain(m *testing.M) {
	if err := RunRole(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// A run has every contestant serve in every scenario. Its figures are not judged.
func TestRunServesEveryContestant(t *testing.T) {
	t.Parallel()
	steps := 0
	r, err := Run(t.Context(), Options{Size: Tiny(), Programs: filepath.Dir(testkit.Binary(t, "entry")), Dir: t.TempDir(), Progress: func(p Progress) { steps++ }})
	if err != nil {
		t.Fatal(err)
	}
	for _, why := range r.LeftOut {
		t.Log(why)
	}
	if steps == 0 || len(r.Contestants)+len(r.LeftOut) != 6 {
		t.Errorf("%d steps, %d contestants, left out %q", steps, len(r.Contestants), r.LeftOut)
	}
	var names []string
	for _, c := range r.Contestants {
		names = append(names, c.Name)
	}
	f := func(scenario string, all []Figures, want []string) {
		t.Helper()
		var served []string
		for _, f := range all {
			served = append(served, f.Contestant)
			if failed, first := f.Failed(); failed > 0 {
				t.Errorf("%s, %s: %d failed, the first with %s", scenario, f.Contestant, failed, first)
			}
			if cpu := f.Median(CPU); len(f.Rounds) != Tiny().Rounds || math.IsNaN(cpu) || cpu <= 0 {
				t.Errorf("%s, %s: %d rounds, %v µs", scenario, f.Contestant, len(f.Rounds), cpu)
			}
		}
		if !slices.Equal(served, want) {
			t.Errorf("%s: served %q, want %q", scenario, served, want)
		}
	}
	f(PlainScenario, r.Plain, names)
	f(SpacedScenario, r.Spaced, names)
	f(ChunkScenario, r.Chunks, names)
	f(MessageScenario, r.Messages, []string{FleetName, ServeName, RelayName})
	nodes := len(names) + 2 // two contestants have two
	if len(r.Open) != nodes || len(r.Waiting) != 3 {
		t.Errorf("memory of open streams in %d nodes, want %d; of waiting requests in %d, want 3", len(r.Open), nodes, len(r.Waiting))
	}
	for _, c := range r.Many {
		if c.Streams != Tiny().Many || c.Failed > 0 || math.IsNaN(c.P99) {
			t.Errorf("many streams: %+v", c)
		}
	}
	for _, s := range r.Ship {
		if len(s.Rounds) != Tiny().ShipRounds {
			t.Fatalf("sink %s: %d rounds", s.Sink, len(s.Rounds))
		}
		r, want := s.Rounds[0], int(Tiny().ShipRate*Tiny().ShipTime.Seconds())
		for _, turn := range []ShipTurn{r.With, r.Without} {
			if turn.Failed > 0 || len(turn.Latencies) != want || turn.Used <= 0 || turn.Memory <= 0 {
				t.Errorf("sink %s: %+v", s.Sink, turn)
			}
		}
		if r.Events <= 0 {
			t.Errorf("sink %s: %v events a second", s.Sink, r.Events)
		}
	}
	if len(r.Ship) != len(shipSinks()) {
		t.Errorf("%d sinks", len(r.Ship))
	}
	if len(r.Many) != len(names)+1 || r.Start == nil || len(r.Start.FirstAnswer) != Tiny().Starts || len(r.Programs) != 3 {
		t.Errorf("many %d, start %+v, programs %+v", len(r.Many), r.Start, r.Programs)
	}
}

func TestRunNamesTheProgramThatIsMissing(t *testing.T) {
	t.Parallel()
	if _, err := Run(t.Context(), Options{Size: Tiny(), Programs: t.TempDir(), Dir: t.TempDir()}); err == nil {
		t.Error("no programs, and no error")
	}
}
