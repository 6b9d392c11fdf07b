package hop

import "sync"

const (
	perAttempt   = 5 // requests that earn one further attempt
	retryMinimum = 3 // attempts that can always be saved
)

// MaxEndpointsFailed is how many endpoints may fail with one request: it is not sent to a third one.
const MaxEndpointsFailed = 2

// RetryBudget bounds the attempts that a node adds to its requests: each request earns a fifth of an attempt, and the larger of three
// and a fifth of the requests in flight can be saved. So attempts ≤ 1.2 × requests + 3, whatever fails; the retries that other nodes
// make for requests that run at once may come on top, since they are charged when those nodes answer. The idea is that of
// Finagle's retry budget, with a ceiling by the requests in flight. Its methods may be called by several goroutines at once.
type RetryBudget struct {
	mu       sync.Mutex // guards the fields below
	inFlight int
	balance  int // in fifths of an attempt; negative after Charge
}

// NewRetryBudget returns a budget with three attempts saved.
func NewRetryBudget() *RetryBudget {
	return &RetryBudget{balance: retryMinimum * perAttempt}
}

// Begin counts a request, which End must end.
func (b *RetryBudget) Begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight++
	b.balance = min(b.balance+1, max(retryMinimum*perAttempt, b.inFlight))
}

// End counts a request that has ended.
func (b *RetryBudget) End() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
}

// Take spends one attempt. It reports false if none is saved.
func (b *RetryBudget) Take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.balance < perAttempt {
		return false
	}
	b.balance -= perAttempt
	return true
}

// Remaining returns how many attempts could be taken now.
func (b *RetryBudget) Remaining() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.balance, 0) / perAttempt
}

// Charge spends attempts that another node has made for a request of this one. The balance may become negative.
func (b *RetryBudget) Charge(attempts int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.balance -= attempts * perAttempt
}
