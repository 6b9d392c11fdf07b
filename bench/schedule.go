package bench

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// newRand returns a source with a fixed seed: every gateway gets the same load.
func newRand(a, b uint64) *rand.Rand { return rand.New(rand.NewPCG(a, b)) }

// poisson returns arrivals of independent clients, as many as rate, per second, gives on average. (Given their number, the
// arrivals of a Poisson process are independent and uniform. A fixed number keeps chance out of the load of a short run.)
func poisson(rnd *rand.Rand, rate float64, in interval) []time.Duration {
	due := make([]time.Duration, int(rate*in.duration().Seconds()+0.5))
	for i := range due {
		due[i] = in.start + time.Duration(rnd.Float64()*float64(in.duration()))
	}
	slices.Sort(due)
	return due
}

// steady returns arrivals at a rate per second whose gaps vary by up to a fifth, as of one person who reads an answer before
// the next question.
func steady(rnd *rand.Rand, rate float64, in interval) []time.Duration {
	if rate <= 0 {
		return nil
	}
	every := float64(time.Second) / rate
	var due []time.Duration
	for at := in.start + time.Duration(every*rnd.Float64()); at < in.end; {
		due = append(due, at)
		at += time.Duration(every * (0.8 + 0.4*rnd.Float64()))
	}
	return due
}

// burst returns n arrivals spread evenly over an interval.
func burst(n int, in interval) []time.Duration {
	due := make([]time.Duration, n)
	for i := range due {
		due[i] = in.start + in.duration()*time.Duration(i)/time.Duration(n)
	}
	return due
}

// variedTokens is the length of an answer with this mean: from half to one and a half of it. If all answers were alike, the
// slots would become free in step.
func variedTokens(rnd *rand.Rand, mean int) int { return mean - mean/2 + rnd.IntN(mean/2*2+1) }

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
