package bench

import (
	"math"
	"slices"
	"time"
)

// jain is the fairness index of R. Jain, D. Chiu and W. Hawe (DEC-TR-301, 1984): 1 if all got the same, 1/n if one got
// everything. NaN of nothing.
func jain(got []float64) float64 {
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

// share is a of b; NaN of nothing.
func share(a, b int) float64 { return float64(a) / float64(b) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// span is from a moment of a trial until another.
type span struct{ from, until time.Duration }

func (s span) length() time.Duration { return max(0, s.until-s.from) }

func (s span) has(at time.Duration) bool { return at >= s.from && at < s.until }

// and is what two spans have in common.
func (s span) and(o span) span { return span{max(s.from, o.from), min(s.until, o.until)} }
