package bench

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// newRand is where chance comes from in a run: the same for every gateway, so that all get the same load.
func newRand(a, b uint64) *rand.Rand { return rand.New(rand.NewPCG(a, b)) }

// poisson are moments of arrival, each independent of the others, as many as rate, per second, makes on the average:
// how many independent people ask. (Given their number, the arrivals of a Poisson process are independent and uniform.
// That the number is given leaves out what chance would do to the load of a short run.)
func poisson(r *rand.Rand, rate float64, in interval) []time.Duration {
	due := make([]time.Duration, int(rate*in.duration().Seconds()+0.5))
	for i := range due {
		due[i] = in.start + time.Duration(r.Float64()*float64(in.duration()))
	}
	slices.Sort(due)
	return due
}

// steady are moments of arrival at a rate per second with gaps that differ by up to a fifth: how one person asks, who
// reads an answer before the next question.
func steady(r *rand.Rand, rate float64, in interval) []time.Duration {
	if rate <= 0 {
		return nil
	}
	every := float64(time.Second) / rate
	var due []time.Duration
	for at := in.start + time.Duration(every*r.Float64()); at < in.end; {
		due = append(due, at)
		at += time.Duration(every * (0.8 + 0.4*r.Float64()))
	}
	return due
}

// burst are n moments spread evenly over a span.
func burst(n int, in interval) []time.Duration {
	due := make([]time.Duration, n)
	for i := range due {
		due[i] = in.start + in.duration()*time.Duration(i)/time.Duration(n)
	}
	return due
}

// variedTokens is how many tokens an answer has where so many are usual: from half as many to half as many more. If all were
// alike, the slots would keep step with each other.
func variedTokens(r *rand.Rand, tokens int) int { return tokens - tokens/2 + r.IntN(tokens/2*2+1) }

// arrival is one request of a trial's schedule.
type arrival struct {
	due  time.Duration
	flow int
}

// mergeArrivals puts the schedules of all flows in order.
func mergeArrivals(flows []flow) []arrival {
	var all []arrival
	for i, f := range flows {
		for _, at := range f.due {
			all = append(all, arrival{at, i})
		}
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.due, b.due) })
	return all
}
