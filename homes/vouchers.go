package homes

import "time"

// Vouchers keeps words: answers of other servers of the colo that they do not reach the store either. A server with a valid word of each
// of them continues to grant without the store. Vouchers is not safe for concurrent use.
type Vouchers struct {
	validity   time.Duration        // of a word, from the question
	words      map[string]time.Time // by node: when the question was asked
	questioned time.Time            // when another server last asked about this process's record; zero = not since the last Confirm
}

// NewVouchers returns Vouchers without words. A word is valid for validity from its question.
func NewVouchers(validity time.Duration) *Vouchers {
	return &Vouchers{validity: validity, words: map[string]time.Time{}}
}

// Vouch notes the word of a server, in the answer to a question that was asked at asked.
func (v *Vouchers) Vouch(node string, asked time.Time) {
	if asked.After(v.words[node]) {
		v.words[node] = asked
	}
}

// Holds reports whether there is a valid word of a server.
func (v *Vouchers) Holds(node string, now time.Time) bool {
	asked, ok := v.words[node]
	return ok && now.Before(asked.Add(v.validity))
}

// Deny notes that a server has answered that it reaches the store: its word does not hold any more.
func (v *Vouchers) Deny(node string) { delete(v.words, node) }

// Questioned notes that another server has asked about this process's record: that server reaches the store, and finds this process
// not registered. Until returns zero until Confirm is called with a later time.
func (v *Vouchers) Questioned(now time.Time) { v.questioned = now }

// Confirm notes that the store last confirmed the registration of this process at at.
func (v *Vouchers) Confirm(at time.Time) {
	if at.After(v.questioned) {
		v.questioned = time.Time{}
	}
}

// Until returns the time until which the words of all these servers hold; zero if one is missing, or if nodes is empty.
func (v *Vouchers) Until(nodes []string) time.Time {
	if !v.questioned.IsZero() || len(nodes) == 0 {
		return time.Time{}
	}
	var until time.Time
	for _, node := range nodes {
		asked, ok := v.words[node]
		if !ok {
			return time.Time{}
		}
		if end := asked.Add(v.validity); until.IsZero() || end.Before(until) {
			until = end
		}
	}
	return until
}
