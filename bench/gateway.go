package bench

import (
	"context"
	"time"
)

// Gateway is one contestant. Start is called once for a run; its engines are its own.
type Gateway struct {
	Name   string // a word or two, as it stands in tables
	About  string // what it is and how it is set up, in a sentence or more
	Judged bool   // the marks are for this one
	Start  func(ctx context.Context, s Setup) (*Target, error)
}

// Setup is what a gateway is started with. All in a run get the same, but for the addresses of the engines and the keys of the accounts.
type Setup struct {
	Engines  []Engine
	Accounts []Account
	Queue    Queue
	Model    string
	Dir      string // scratch, for this gateway alone
}

// Slots is how many requests all engines together run at once.
func (s *Setup) Slots() int {
	n := 0
	for _, e := range s.Engines {
		n += e.Slots
	}
	return n
}

// Engine is one running engine.
type Engine struct {
	URL   string // http://127.0.0.1:port
	Slots int
}

// Account is somebody who asks.
type Account struct {
	Name       string
	Key        string // what stands after Bearer
	Weight     int
	Priority   string // its band: interactive, standard or batch; empty: the gateway's default
	Concurrent int    // the most that may run for it at once; 0: no bound
}

// Queue bounds what waits: the same for everybody who can have it.
type Queue struct {
	Limit      int           // all that wait
	PerAccount int           // what waits of one account; 0: no bound
	MaxWait    time.Duration // the longest that one waits
}

// Target is a gateway that runs.
type Target struct {
	URL string // its base URL; ends in /v1

	// Held says how many requests are with engines and how many wait. Nil: it cannot be asked.
	Held func(context.Context) (held, queued int, err error)

	// Stop ends it, and returns when all of it is gone. Nil: it is not ours to end.
	Stop func() error
}
