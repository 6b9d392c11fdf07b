package bench

import (
	"math"
	"slices"

	"gonum.org/v1/plot"
)

// scale is what an axis shows: from where to where, and what is written along it.
type scale struct {
	min, max float64
	log      bool
	ticks    []plot.Tick
}

// share is where a value lies along the axis, from 0 to 1. What is not above 0 has no place on a logarithmic one.
func (s *scale) share(v float64) float64 {
	if s.log {
		return (math.Log(v) - math.Log(s.min)) / (math.Log(s.max) - math.Log(s.min))
	}
	return (v - s.min) / (s.max - s.min)
}

// has says whether a value can be drawn.
func (s *scale) has(v Value) bool { return v.Measured() && (!s.log || v > 0) }

// scaleOf makes an axis for these values. One that is not logarithmic begins at 0: a difference is to look as large as it is.
func scaleOf(a Axis, values []Value) scale {
	s := scale{log: a.Log}
	var shown []float64
	for _, v := range values {
		if s.has(v) {
			shown = append(shown, float64(v))
		}
	}
	if len(shown) == 0 {
		shown = []float64{1}
	}
	low, high := slices.Min(shown), slices.Max(shown)
	if a.Log {
		s.min, s.max = decade(low, false), decade(high, true)
		if s.min == s.max {
			s.max *= 10
		}
		s.ticks = logTicks(s, a.Unit)
		return s
	}
	s.min, s.max = min(low, 0), max(high, 0)
	if s.max == s.min {
		s.max = s.min + 1
	}
	step := roundStep((s.max - s.min) / 5)
	s.min = math.Floor(s.min/step+1e-9) * step
	if a.Unit == "%" && s.min == 0 && s.max > 0.5 && s.max <= 1.15 {
		s.max, step = max(s.max, 1), 0.2 // all is 100 %, and what is measured may be a little more
	} else {
		s.max = math.Ceil(s.max/step-1e-9) * step
	}
	for i := 0; ; i++ {
		v := s.min + float64(i)*step
		if v > s.max*(1+1e-9) {
			break
		}
		s.ticks = append(s.ticks, plot.Tick{Value: v, Label: tickLabel(v, a.Unit)})
	}
	return s
}

// fitted narrows an axis to its values: time and load begin and end where the measurement does.
func (s scale) fitted(a Axis, values []Value) scale {
	if a.Log {
		return s
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if s.has(v) {
			low, high = min(low, float64(v)), max(high, float64(v))
		}
	}
	if low < high {
		s.min, s.max = min(s.min, low), high
		s.ticks = slices.DeleteFunc(s.ticks, func(t plot.Tick) bool { return t.Value > high*(1+1e-9) })
	}
	return s
}

// decade is the next 1, 2 or 5 times a power of ten.
func decade(v float64, up bool) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
	best := power
	for _, f := range []float64{1, 2, 5, 10} {
		switch at := f * power; {
		case !up && at <= v*(1+1e-9):
			best = at
		case up && at >= v*(1-1e-9):
			return at
		}
	}
	return best
}

// logTicks are 1, 2 and 5 of each power of ten where there are few powers, else 1 alone.
func logTicks(s scale, unit string) []plot.Tick {
	all := math.Log10(s.max/s.min) <= 3
	var ticks []plot.Tick
	for power := math.Pow(10, math.Floor(math.Log10(s.min)+1e-9)); power <= s.max*(1+1e-9); power *= 10 {
		for f := 1.0; f < 10; f++ {
			v := f * power
			if v < s.min*(1-1e-9) || v > s.max*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			if f == 1 || all && (f == 2 || f == 5) {
				t.Label = tickLabel(v, unit)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// roundStep is the next step up that people count in.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 2.5, 5} {
		if f*power >= v*(1-1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// tickLabel writes a value at an axis, without digits that say nothing.
func tickLabel(v float64, unit string) string {
	if unit == "%" {
		v *= 100
	}
	return grouped(shortest(v))
}

// sampled are ticks at the values themselves, where these are few and far enough from each other; else none.
func sampled(a Axis, s scale, values []Value) []plot.Tick {
	var at []float64
	for _, v := range values {
		if s.has(v) {
			at = append(at, float64(v))
		}
	}
	slices.Sort(at)
	at = slices.Compact(at)
	if len(at) < 2 || len(at) > 9 {
		return nil
	}
	var ticks []plot.Tick
	for i, v := range at {
		if i > 0 && s.share(v)-s.share(at[i-1]) < 0.05 {
			return nil
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: tickLabel(v, a.Unit)})
	}
	return ticks
}
