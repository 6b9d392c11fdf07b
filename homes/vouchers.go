package homes

import "time"

// Vouchers keeps the words of the other servers of a colo that they do not reach the store either. A server that has the words of all
// goes on granting without the store. It is not safe for concurrent use.
type Vouchers struct {
	validity   time.Duration        // of a word, from the question
	words      map[string]time.Time // by node: when the question was asked
	questioned time.Time            // when another server, which reaches the store, last asked about this process's record; zero = never
}

// NewVouchers returns no words. validity is how long each holds from its question.
func NewVouchers(validity time.Duration) *Vouchers {
	return &Vouchers{validity: validity, words: map[string]time.Time{}}
}

// Vouch takes the word of a server to a question of that time.
func (v *Vouchers) Vouch(node string, asked time.Time) {
	if asked.After(v.words[node]) {
		v.words[node] = asked
	}
}

// Holds reports whether the word of a server holds.
func (v *Vouchers) Holds(node string, now time.Time) bool {
	asked, ok := v.words[node]
	return ok && now.Before(asked.Add(v.validity))
}

// Deny takes the word of a server that it reaches the store.
func (v *Vouchers) Deny(node string) { delete(v.words, node) }

// Question notes that another server has asked about this process's record: it reaches the store, and finds this process not registered.
func (v *Vouchers) Question(now time.Time) { v.questioned = now }

// Confirm notes that the store has last confirmed the registration of this process at that time.
func (v *Vouchers) Confirm(at time.Time) {
	if at.After(v.questioned) {
		v.questioned = time.Time{}
	}
}

// Until returns the time up to which the words of all these servers hold; zero if one is missing.
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
