package canary

import (
	"fmt"
	"math"
)

// The numbers of the rule.
const (
	MinRequests    = 20    // of a share that counts
	minRise        = 0.02  // of the share
	minSome        = 2     // requests of a figure; one alone is chance
	minAlone       = 5     // requests of a figure without a reference
	maxPValue      = 0.001 // that such a rise is none
	maxPValueFew   = 0.01  // the same, compared with a reference of fewer than fewRequests, which nothing but a large rise would be beyond
	fewRequests    = 200
	sureRise       = 0.1 // of the share, which must be found for a node to be judged
	sureRepetition = 4   // times as many requests since the change as before
)

// Evidence is what is known about the requests of a node since a change.
type Evidence struct {
	Now    Counts
	Before Counts // of the same node
	Peers  Counts // of other nodes of its kind, since the change

	Nodes int // that are judged side by side, and share the chance of a false alarm; 0 = this one alone
}

// Enough reports whether there were enough requests to judge: each figure would have risen if its share were ten percentage points above those
// of the references.
func (e Evidence) Enough() bool {
	for _, f := range Figures() {
		now, before, peers := e.Now.Share(f), e.Before.Share(f), e.Peers.Share(f)
		if part := max(before.reference(), peers.reference()) + sureRise; part < 1 { // else no such rise is possible
			now.Some = int(math.Ceil(float64(now.All) * part))
			if !now.aboveAll(e.Nodes, before, peers) {
				return false
			}
		}
	}
	return e.Now.Requests >= MinRequests
}

// SufficeBefore reports whether the requests of a node before a change are enough to judge it by four times as many after the change.
func (c Counts) SufficeBefore() bool {
	return Evidence{Now: Counts{Requests: sureRepetition * c.Requests}, Before: c}.Enough()
}

// Rise is a figure that has risen.
type Rise struct {
	Figure             Figure
	Now, Before, Peers Share
}

// Risen returns the first figure that has risen; ok is false if none has.
func (e Evidence) Risen() (r Rise, ok bool) {
	for _, f := range Figures() {
		r = Rise{f, e.Now.Share(f), e.Before.Share(f), e.Peers.Share(f)}
		if r.Now.aboveAll(e.Nodes, r.Before, r.Peers) {
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

// reference returns the part as one to compare with; 0 if it does not count.
func (s Share) reference() float64 {
	if !s.counts() {
		return 0
	}
	return s.part()
}

// aboveAll reports whether a share has risen, compared with those of the others that count. It is that of one of so many nodes.
func (s Share) aboveAll(nodes int, others ...Share) bool {
	if !s.counts() || s.Some < minSome {
		return false
	}
	alone := true
	for _, other := range others {
		if !other.counts() {
			continue
		}
		alone = false
		if s.part()-other.part() <= minRise || pValue(s, other)*float64(max(nodes, 1)) >= other.maxPValue() {
			return false
		}
	}
	return !alone || s.Some >= minAlone && s.part() > minRise
}

// maxPValue returns how probable a rise above a reference may be by chance.
func (s Share) maxPValue() float64 {
	if s.All < fewRequests {
		return maxPValueFew
	}
	return maxPValue
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
