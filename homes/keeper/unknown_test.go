package keeper_test

import (
	"reflect"
	"testing"
	"time"

	"colonnade/homes"
	"colonnade/homes/keeper"
)

// Engines of an orphaned record that no endpoint has are reported until the record is settled, and logged once.
func TestUnknownEnginesOfOrphans(t *testing.T) {
	run(t, nil, func(t *testing.T, m *model) {
		documents := table([]string{"p"}, server(self))
		m.start(documents, homes.Record{Process: sibling, Owns: map[string]int{engine("p"): 0, engine("z"): 0}, Held: map[string]int{engine("q"): 2}},
			homes.Record{Process: third, Owns: map[string]int{engine("p"): 0}})
		want := []keeper.UnknownEngines{{Process: sibling, URLs: []string{engine("q"), engine("z")}}}
		for range 3 {
			if got := m.keeper.UnknownEngines(); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
			m.keeper.Apply(documents)
		}
		m.do(func() {
			if m.warnings != 1 {
				t.Errorf("%d warnings, want 1", m.warnings)
			}
		})
		time.Sleep(time.Minute)
		if got := m.keeper.UnknownEngines(); len(got) > 0 {
			t.Errorf("once it is settled: %+v", got)
		}
	})
}
