package canary

import (
	"fmt"
	"math"
)

// The numbers of the rule.
const (
	MinRequests = 20   // of a share that counts
	minRise     = 0.02 // of the share
	maxPValue   = 1e-4 // that such a rise is none
	minAlone    = 5    // requests of a figure without a reference
)

// Evidence is what is known about the requests of a node since a change.
type Evidence struct {
	Now    Counts
	Before Counts // of the same node
	Peers  Counts // of other nodes of its kind, since the change
}

// Enough reports whether there were enough requests to judge.
func (e Evidence) Enough() bool { return e.Now.Requests >= MinRequests }

// Rise is a figure that has risen.
type Rise struct {
	Figure             Figure
	Now, Before, Peers Share
}

// Risen returns the first figure that has risen; ok is false if none has.
func (e Evidence) Risen() (r Rise, ok bool) {
	for _, f := range Figures() {
		r = Rise{f, e.Now.Share(f), e.Before.Share(f), e.Peers.Share(f)}
		if r.Now.aboveAll(r.Before, r.Peers) {
			return r, true
		}
	}
	return Rise{}, false
}

// String returns the figures with their counts, for people.
func (r Rise) String() string {
	text := fmt.Sprintf("%s: from %s before to %s", r.Figure, r.Before, r.Now)
	if r.Peers.All > 0 {
		text += fmt.Sprintf(", while its peers have %s", r.Peers)
	}
	return text
}

// Share is some of all requests.
type Share struct{ Some, All int }

func (s Share) part() float64 {
	if s.All == 0 {
		return 0
	}
	return float64(s.Some) / float64(s.All)
}

// String returns the share for people, such as "3 of 400 requests (0.8 %)".
func (s Share) String() string {
	if s.All == 0 {
		return "no requests"
	}
	if s.All == 1 {
		return fmt.Sprintf("%d of 1 request", s.Some)
	}
	return fmt.Sprintf("%d of %d requests (%.3g %%)", s.Some, s.All, 100*s.part())
}

// counts reports whether there are enough requests to compare with.
func (s Share) counts() bool { return s.All >= MinRequests }

// aboveAll reports whether a share has risen, compared with those of the others that count.
func (s Share) aboveAll(others ...Share) bool {
	if !s.counts() {
		return false
	}
	alone := true
	for _, other := range others {
		if !other.counts() {
			continue
		}
		alone = false
		if s.part()-other.part() <= minRise || pValue(s, other) >= maxPValue {
			return false
		}
	}
	return !alone || s.Some >= minAlone && s.part() > minRise
}

// pValue returns the probability that a share is this high or higher if the requests of both are alike: the tail of the hypergeometric
// distribution.
func pValue(s, other Share) float64 {
	some, all := s.Some+other.Some, s.All+other.All
	sum := 0.0
	for n := s.Some; n <= min(s.All, some); n++ {
		p := math.Exp(logChoose(some, n) + logChoose(all-some, s.All-n) - logChoose(all, s.All))
		sum += p
		if p < sum*1e-12 { // the terms fall from here on
			break
		}
	}
	return min(sum, 1)
}

// logChoose returns the logarithm of the number of ways to choose k of n; minus infinity if there is none.
func logChoose(n, k int) float64 {
	if k < 0 || k > n {
		return math.Inf(-1)
	}
	return logFactorial(n) - logFactorial(k) - logFactorial(n-k)
}

func logFactorial(n int) float64 {
	value, _ := math.Lgamma(float64(n) + 1)
	return value
}
