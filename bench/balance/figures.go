package balance

import (
	"math"
	"slices"
	"time"
)

// Figures are what one run has measured, of the requests after the first fifth, in which the caches fill, and
// before the last tenth, in which the load falls.
type Figures struct {
	Hits     float64 // share of the tokens of prompts that were cached
	Loaded   float64 // share of the requests whose adapter was in memory
	TTFT50   float64 // s, from the arrival; a refused request has none
	TTFT99   float64
	Goodput  float64 // requests a second whose TTFT was within the objective
	Served   float64 // requests a second, while others arrived
	Refused  float64 // share of the requests
	Jain     float64 // of what accounts got, by cost, while they had requests waiting; NaN: never two had
	PeakOver int     // most requests that an engine had above its slots
}

// objective is the longest time to first token that counts as goodput.
const objective = 5 * time.Second

// jainWindow is how long an account must have had requests waiting, without a pause, for what it got to be compared.
const jainWindow = 5 * time.Second

// figures follow the accounts of a run.
type figures struct {
	over    int
	waiting [accounts]int
	window  time.Duration       // its end
	paused  [accounts]bool      // had nothing waiting at some time in the window
	used    [accounts]float64   // in the window, by requests that had waited: their cost
	got     [accounts][]float64 // in each window with a backlog, relative to the mean of the accounts that had one
}

func newFigures() *figures {
	return &figures{window: jainWindow, paused: [accounts]bool{true, true, true, true}}
}

func (f *figures) waitingAll() (n int) {
	for _, w := range f.waiting {
		n += w
	}
	return n
}

// advance ends the windows that are over.
func (f *figures) advance(now time.Duration) {
	for ; f.window <= now; f.window += jainWindow {
		var sum, n float64
		for i := range f.used {
			if !f.paused[i] {
				sum, n = sum+f.used[i], n+1
			}
		}
		for i := range f.used {
			if !f.paused[i] && n > 1 && sum > 0 {
				f.got[i] = append(f.got[i], f.used[i]*n/sum)
			}
			f.paused[i], f.used[i] = f.waiting[i] == 0, 0
		}
	}
}

func (f *figures) arrive(now time.Duration, account int) {
	f.advance(now)
	f.waiting[account]++
}

// leave notes that a request does not wait any more. The cost is 0 if it had not waited, or got no slot.
func (f *figures) leave(now time.Duration, account int, cost float64) {
	f.advance(now)
	if f.waiting[account]--; f.waiting[account] == 0 {
		f.paused[account] = true
	}
	f.used[account] += cost
}

// jain is Jain's index of what accounts got while they had requests waiting: of each, the mean over its windows. Accounts with few windows
// are left out.
func (f *figures) jain() float64 {
	const fewest = 5
	var sum, squares, n float64
	for _, got := range f.got {
		if len(got) < fewest {
			continue
		}
		mean := 0.0
		for _, g := range got {
			mean += g / float64(len(got))
		}
		sum, squares, n = sum+mean, squares+mean*mean, n+1
	}
	if n < 2 {
		return math.NaN()
	}
	return sum * sum / (n * squares)
}

// measure returns the figures at the end of a run.
func (r *run) measure() Figures {
	f := Figures{Jain: r.figures.jain(), PeakOver: max(r.figures.over, 0)}
	first, last := len(r.ended)/5, len(r.ended)*9/10
	from, to := r.arrival(first), r.arrival(last)
	seconds := (to - from).Seconds()
	var ttfts []float64
	var input, cached, loaded, good, served, refused int
	for i := range r.ended {
		s := &r.ended[i]
		if !s.refused && s.done > from && s.done <= to {
			served++
		}
		switch {
		case i < first || i >= last:
		case s.refused:
			refused++
		default:
			input, cached = input+r.Traffic.Requests[i].Input, cached+s.cached
			ttfts = append(ttfts, s.ttft.Seconds())
			if s.loaded {
				loaded++
			}
			if s.ttft <= objective {
				good++
			}
		}
	}
	f.Hits, f.Refused = float64(cached)/float64(input), float64(refused)/float64(last-first)
	f.Goodput, f.Served = float64(good)/seconds, float64(served)/seconds
	f.Loaded = float64(loaded) / float64(max(len(ttfts), 1))
	slices.Sort(ttfts)
	if len(ttfts) > 0 {
		f.TTFT50, f.TTFT99 = ttfts[len(ttfts)/2], ttfts[len(ttfts)*99/100]
	}
	return f
}
