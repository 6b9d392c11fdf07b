package homes

import "time"

// Vouchers keeps the words of the other servers of a colo that they do not reach the store either. A server that has the words of all
// goes on granting without the store. It is not safe for concurrent use.
type Vouchers struct {
	validity time.Duration        // of a word, from the question
	words    map[string]time.Time // by node: when the question was asked
	asked    bool                 // another server reaches the store and has asked about this process's record
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

// Deny takes the word of a server that it reaches the store.
func (v *Vouchers) Deny(node string) { delete(v.words, node) }

// Doubt notes that another server has asked about this process's record: it reaches the store, and finds this process not registered.
func (v *Vouchers) Doubt() { v.asked = true }

// Confirm notes that the store has confirmed the registration of this process.
func (v *Vouchers) Confirm() {
	v.asked = false
	clear(v.words)
}

// Until returns the time up to which the words of all these servers hold; zero if one is missing.
func (v *Vouchers) Until(nodes []string) time.Time {
	if v.asked || len(nodes) == 0 {
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
