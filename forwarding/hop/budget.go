package hop

import "sync"

const (
	perAttempt   = 5 // requests that pay for one further attempt
	retryMinimum = 3 // attempts that are always possible after a quiet time
)

// MaxEndpointsFailed is how many endpoints one request may break: a third is not given to it.
const MaxEndpointsFailed = 2

// RetryBudget bounds the attempts that a node adds to its requests: each request pays in a fifth of an attempt, and at
// most a fifth of the requests in flight, or three, can be saved up. So whatever fails, attempts ≤ 1.2 × requests + 3.
// (The idea is that of Finagle's retry budget, with the ceiling taken from what is in flight.)
type RetryBudget struct {
	mu       sync.Mutex // guards the fields below
	inFlight int
	balance  int // in fifths of an attempt
}

// NewRetryBudget returns a budget with the minimum saved up.
func NewRetryBudget() *RetryBudget {
	return &RetryBudget{balance: retryMinimum * perAttempt}
}

// Begin pays in for one request, which must be ended by End.
func (b *RetryBudget) Begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight++
	b.balance = min(b.balance+1, max(retryMinimum*perAttempt, b.inFlight))
}

// End says that a request is over.
func (b *RetryBudget) End() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
}

// Take spends one attempt, if there is one.
func (b *RetryBudget) Take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.balance < perAttempt {
		return false
	}
	b.balance -= perAttempt
	return true
}

// Remaining says how many attempts could be taken now.
func (b *RetryBudget) Remaining() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.balance, 0) / perAttempt
}

// Charge books attempts that another node has made for us. The budget may fall below nothing, and must then be earned
// again first.
func (b *RetryBudget) Charge(attempts int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.balance -= attempts * perAttempt
}
