package cost

import (
	"context"
	"fmt"
	"time"

	"colonnade/bench/child"
)

// turn is what a contestant does in one round. It returns the number of units of work that were done.
type turn func(ctx context.Context, r *running) (units int, round Round)

// rounds lets contestants work in turns, every second round in the reverse order, after a turn of each that does not count.
func (m *measurement) rounds(ctx context.Context, scenario string, rounds int, all []*running, work turn) ([]Figures, error) {
	figures := make([]Figures, len(all))
	for i, r := range all {
		figures[i].Contestant = r.name
		m.step(scenario, r.name, "warming up")
		work(ctx, r)
	}
	for n := range rounds {
		for k := range all {
			i := k
			if n%2 == 1 {
				i = len(all) - 1 - k
			}
			m.step(scenario, all[i].name, fmt.Sprintf("round %d of %d", n+1, rounds))
			round, err := oneTurn(ctx, all[i], work)
			if err != nil {
				return nil, err
			}
			figures[i].Rounds = append(figures[i].Rounds, round)
		}
	}
	return figures, nil
}

// oneTurn measures one turn.
func oneTurn(ctx context.Context, r *running, work turn) (Round, error) {
	before, err := child.CPU(r.pids()...)
	if err != nil {
		return Round{}, err
	}
	began := time.Now()
	units, round := work(ctx, r)
	lasted := time.Since(began)
	after, err := child.CPU(r.pids()...)
	switch {
	case ctx.Err() != nil:
		return Round{}, ctx.Err()
	case err != nil:
		return Round{}, err
	case units == 0:
		return Round{}, fmt.Errorf("%s served nothing: %s", r.name, round.FirstFail)
	}
	round.CPU = micros(after-before) / float64(units)
	round.Rate = float64(units) / lasted.Seconds()
	return round, nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
