package fairqueue

// Knows says whether the state of an account is kept.
func (q *Queue) Knows(account string) bool { return q.accounts[account] != nil }
