package fairqueue

// Knows says whether the state of an account is kept.
func (q *Queue) Knows(account string) bool { return q.accounts[account] != nil }

// LenOf returns the number of items waiting of one account.
func (q *Queue) LenOf(account string) int {
	if a := q.accounts[account]; a != nil {
		return int(a.held[requests])
	}
	return 0
}

// Accounts returns the number of accounts whose state is kept.
func (q *Queue) Accounts() int { return len(q.accounts) }
