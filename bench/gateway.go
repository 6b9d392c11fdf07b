package bench

import (
	"context"
	"time"
)

// Gateway is a gateway to measure. Start is called once for each variant of a run, with engines of the gateway's own.
type Gateway struct {
	Name   string // a word or two, as in tables
	About  string // what it is and how it is configured, in a sentence or more
	Judged bool   // the thresholds are for this one
	Start  func(ctx context.Context, s Setup) (*Target, error)
}

// Setup is what a gateway is started with. All gateways in a run get the same, but for the addresses of the engines and the
// keys of the accounts.
type Setup struct {
	Engines  []Engine
	Accounts []Account
	Queue    Queue
	Model    string
	Dir      string // scratch directory of this gateway
}

// slots is how many requests all engines run at once.
func (s *Setup) slots() int {
	n := 0
	for _, e := range s.Engines {
		n += e.Slots
	}
	return n
}

// Engine is one running engine.
type Engine struct {
	URL   string // such as http://127.0.0.1:8000
	Slots int
}

// Account is an account that sends requests.
type Account struct {
	Name     string
	Key      string // the bearer token
	Weight   int
	Priority string // interactive, standard or batch; empty: the gateway's default
}

// Queue bounds the waiting requests, for every gateway that can have such bounds.
type Queue struct {
	Limit      int           // all waiting requests
	PerAccount int           // waiting requests of one account; 0: no bound
	MaxWait    time.Duration // of a request
}

// Target is a running gateway.
type Target struct {
	URL string // base URL, ending in /v1

	// Held returns how many requests are with engines and how many wait. Nil: the gateway cannot say.
	Held func(context.Context) (held, queued int, err error)

	// Stop ends the gateway, and returns when all of it has ended. Nil: it is not ours to end.
	Stop func() error
}
