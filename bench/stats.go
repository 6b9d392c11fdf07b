package bench

import (
	"math"
	"slices"
	"time"
)

// jainIndex is the fairness index of R. Jain, D. Chiu and W. Hawe (DEC-TR-301, 1984): 1 if all values are equal, 1/n if one has
// everything. It is NaN if there are none.
func jainIndex(values []float64) float64 {
	var sum, squares float64
	for _, x := range values {
		sum += x
		squares += x * x
	}
	return sum * sum / (float64(len(values)) * squares)
}

// quantile is the least of x that a share q of all does not exceed, or NaN of none. It sorts x.
func quantile(x []float64, q float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	slices.Sort(x)
	return x[max(0, int(math.Ceil(q*float64(len(x))))-1)]
}

// ratio is a of b; NaN of none.
func ratio(a, b int) float64 { return float64(a) / float64(b) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// interval is a part of a trial. Its end is not in it.
type interval struct{ start, end time.Duration }

func (i interval) duration() time.Duration { return max(0, i.end-i.start) }

func (i interval) contains(at time.Duration) bool { return at >= i.start && at < i.end }

func (i interval) intersect(o interval) interval {
	return interval{max(i.start, o.start), min(i.end, o.end)}
}
