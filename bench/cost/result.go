package cost

import (
	"cmp"
	"math"
	"slices"
)

// Result is everything that one run has measured.
type Result struct {
	Contestants []Contestant
	LeftOut     []string // contestants that are not installed, and why

	Plain    []Figures // as many requests as its clients get answered
	Spaced   []Figures // requests at a fixed rate
	Rate     float64   // of Spaced, in requests a second
	Chunks   []Figures // chunks of streams
	Messages []Figures // messages of realtime sessions, there and back
	Traces   []Figures // requests with and without traces

	Open    []Held // memory of open streams
	Waiting []Held // memory of requests that wait for a slot
	Many    []Many // very many open streams

	Start    *Start // of one process; nil: not measured
	Programs []Program

	Ship []Shipped // requests beside the sinks of events

	Functions []Function
}

// Shipped are the rounds of a node that sends a backlog of events to a sink in one of two turns, while requests go on.
type Shipped struct {
	Sink   string
	Rounds []ShipRound
}

// ShipRound is what was measured in two turns of the same process, one after the other.
type ShipRound struct {
	With, Without ShipTurn
	Events        float64 // that the sink has taken, a second
	Incomplete    bool    // the backlog has ended before the turn
}

// ShipTurn is what was measured while the node ships, or does not.
type ShipTurn struct {
	Latencies []float64 // of requests, from when they were due, in µs
	Used      float64   // processor time of the node, in µs a second
	Memory    float64   // of the node, in bytes
	Failed    int
	FirstFail string // error of the first that failed
}

// Figures are the rounds of a contestant.
type Figures struct {
	Contestant string
	Rounds     []Round
}

// Round is what was measured in one turn. Times are in µs.
type Round struct {
	CPU       float64 // of the contestant's processes, for each unit of work
	Rate      float64 // units a second
	P50, P99  float64 // latency, from when the request was due
	Late      float64 // of the client, 99th percentile: how long after it was due a request was sent
	Failed    int
	FirstFail string // error of the first that failed
}

// Held is the memory of open streams, or of waiting requests, in one node.
type Held struct {
	Contestant, Node string
	Count            int
	Each             float64 // bytes
}

// Many is how very many open streams fared.
type Many struct {
	Contestant    string
	Streams       int
	Failed        int
	FirstFail     string
	P50, P99      float64 // of the times between two chunks, in ms
	CPU           float64 // processor time of all nodes, in seconds for each second
	GapMillis     float64 // between two chunks at the engine
	ChunksASecond float64
}

// Start is what an operator sees of a start.
type Start struct {
	FirstAnswer []float64 // from the start of the process to its first answer, in ms
	Rest        float64   // resident memory after the first answer, in bytes
	RestOwn     float64   // that part of it that the process has allocated
}

// Program is a binary.
type Program struct {
	Name  string
	Bytes float64
}

// Of returns the figures of a contestant.
func Of(all []Figures, contestant string) (Figures, bool) {
	i := slices.IndexFunc(all, func(f Figures) bool { return f.Contestant == contestant })
	if i < 0 {
		return Figures{}, false
	}
	return all[i], true
}

// Median returns the median of a figure over the rounds; NaN of none.
func (f Figures) Median(figure func(Round) float64) float64 {
	return median(f.values(figure))
}

// Least returns the least of all rounds, and Most the largest.
func (f Figures) Least(figure func(Round) float64) float64 {
	return slices.Min(append(f.values(figure), math.Inf(1)))
}

// Most returns the largest of all rounds.
func (f Figures) Most(figure func(Round) float64) float64 {
	return slices.Max(append(f.values(figure), math.Inf(-1)))
}

// Ratio returns the median over the rounds of the ratio to another contestant in the same round: what the machine was like in that
// round touches both.
func (f Figures) Ratio(to Figures, figure func(Round) float64) float64 {
	var ratios []float64
	for i := range min(len(f.Rounds), len(to.Rounds)) {
		ratios = append(ratios, figure(f.Rounds[i])/figure(to.Rounds[i]))
	}
	return median(ratios)
}

// Failed returns how many units of work failed.
func (f Figures) Failed() (n int, first string) {
	for _, r := range f.Rounds {
		n += r.Failed
		first = cmp.Or(first, r.FirstFail)
	}
	return n, first
}

func (f Figures) values(figure func(Round) float64) (values []float64) {
	for _, r := range f.Rounds {
		values = append(values, figure(r))
	}
	return values
}

// CPU, P50, P99 and Late are the figures of a round.
func CPU(r Round) float64  { return r.CPU }
func P50(r Round) float64  { return r.P50 }
func P99(r Round) float64  { return r.P99 }
func Late(r Round) float64 { return r.Late }
func Rate(r Round) float64 { return r.Rate }

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 0 {
		return (values[middle-1] + values[middle]) / 2
	}
	return values[middle]
}

// quantile is the least value that a share q of all does not exceed; NaN of none. It sorts them.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
}
