package bench

import (
	"math"
	"slices"
	"time"
)

// jainIndex is the fairness index of R. Jain, D. Chiu and W. Hawe (DEC-TR-301, 1984): 1 if all got the same, 1/n if one got
// everything. NaN of nothing.
func jainIndex(got []float64) float64 {
	var sum, squares float64
	for _, x := range got {
		sum += x
		squares += x * x
	}
	return sum * sum / (float64(len(got)) * squares)
}

// quantile is the least of x that a share q of all does not exceed; NaN of none. It sorts x.
func quantile(x []float64, q float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	slices.Sort(x)
	return x[max(0, int(math.Ceil(q*float64(len(x))))-1)]
}

// ratio is a of b; NaN of nothing.
func ratio(a, b int) float64 { return float64(a) / float64(b) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// interval is from a moment of a trial until another.
type interval struct{ start, end time.Duration }

func (s interval) duration() time.Duration { return max(0, s.end-s.start) }

func (s interval) contains(at time.Duration) bool { return at >= s.start && at < s.end }

// intersect is what two spans have in common.
func (s interval) intersect(o interval) interval {
	return interval{max(s.start, o.start), min(s.end, o.end)}
}
