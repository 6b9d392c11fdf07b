package proctest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/internal/testkit"
)

// Kind is a kind of request.
type Kind string

// Requests of all kinds are chat completions. The tokens of each are a random number up to that of its kind.
const (
	Plain     Kind = "plain"
	Streamed  Kind = "streamed"
	Cancelled Kind = "cancelled"  // streamed; its client leaves at a random moment
	Long      Kind = "long"       // streamed, with all of its tokens
	LongPlain Kind = "long-plain" // plain, with all of its tokens
)

// isPlain reports whether the answers are no streams.
func (k Kind) isPlain() bool { return k == Plain || k == LongPlain }

// isLong reports whether the requests have all tokens of long ones.
func (k Kind) isLong() bool { return k == Long || k == LongPlain }

// LoadConfig says how many clients send requests of which kind. Each client sends one after another, all to one pool through one
// entry; the clients are spread over pools and entries.
type LoadConfig struct {
	Clients    map[Kind]int
	Tokens     int      // of most requests; default 8
	LongTokens int      // of long requests; default 200
	Requests   int      // that each client sends; default: as many as it can before Stop
	Pools      []string // default: all
}

// pauseAfterFailure is shorter than any Retry-After, so that a test soon sees when requests are served again.
const pauseAfterFailure = 100 * time.Millisecond

// Load is the clients of a fleet. They send requests through all entries, and keep what becomes of each.
type Load struct {
	c        LoadConfig
	number   int // in the fleet
	entries  []*Node
	clients  sync.WaitGroup
	stopping context.Context
	stop     context.CancelFunc
	served   map[string]*atomic.Int64 // complete answers by pool
	begun    atomic.Int64             // answers whose first bytes have arrived

	mu      sync.Mutex // guards the field below
	results []Result
}

// Drive starts clients, which stop with the test at the latest.
func (f *Fleet) Drive(c LoadConfig) *Load {
	c.Tokens, c.LongTokens = cmp.Or(c.Tokens, 8), cmp.Or(c.LongTokens, 200)
	if c.Pools == nil {
		c.Pools = f.Pools()
	}
	f.loads++
	l := &Load{c: c, number: f.loads, entries: f.Entries, served: map[string]*atomic.Int64{}}
	for _, pool := range c.Pools {
		l.served[pool] = new(atomic.Int64)
	}
	l.stopping, l.stop = context.WithCancel(context.Background())
	number := 0
	for _, kind := range []Kind{Plain, Streamed, Cancelled, Long, LongPlain} {
		for range c.Clients[kind] {
			client := number
			number++
			l.clients.Go(func() { l.run(client, kind) })
		}
	}
	f.T.Cleanup(func() { l.Stop() })
	return l
}

func (l *Load) run(client int, kind Kind) {
	to, pool := l.entries[client%len(l.entries)], l.c.Pools[client%len(l.c.Pools)]
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	sender := http.Client{Transport: transport, Timeout: 3 * testkit.Timeout}
	for i := 0; l.stopping.Err() == nil && (l.c.Requests == 0 || i < l.c.Requests); i++ {
		r := l.send(&sender, Result{
			ID: fmt.Sprintf("%s-%d-%d-%d", kind, l.number, client, i), Kind: kind, Entry: to.Name, Pool: pool,
		}, to.Address)
		l.mu.Lock()
		l.results = append(l.results, r)
		l.mu.Unlock()
		if r.Outcome == Complete {
			l.served[r.Pool].Add(1)
		}
		if r.Outcome == Lost || r.Outcome == Refused {
			time.Sleep(pauseAfterFailure)
		}
	}
}

// send sends one request and reads the whole answer.
func (l *Load) send(client *http.Client, r Result, address string) Result {
	r.tokens = 1 + rand.IntN(l.c.Tokens)
	if r.Kind.isLong() {
		r.tokens = l.c.LongTokens
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if r.Kind == Cancelled {
		defer time.AfterFunc(time.Duration(rand.IntN(300))*time.Millisecond, cancel).Stop()
	}
	body := fmt.Sprintf(`{"model":%q,"stream":%v,"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`,
		r.Pool, !r.Kind.isPlain(), r.tokens, r.ID)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		panic(err) // of the parts above
	}
	request.GetBody = nil // so that it is never sent again
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Request-Id", r.ID)
	r.Began = time.Now()
	answer, err := client.Do(request)
	if err == nil {
		l.begun.Add(1)
	}
	r.classify(answer, err)
	r.Ended = time.Now()
	if r.Outcome == Lost && ctx.Err() != nil {
		r.Outcome = Left
	}
	return r
}

// WaitServed waits until n further requests were served, in each pool.
func (l *Load) WaitServed(t testing.TB, n int64) {
	t.Helper()
	want := map[string]int64{}
	for pool, served := range l.served {
		want[pool] = served.Load() + n
	}
	testkit.WaitFor(t, "further requests to be served", func() bool {
		for pool, served := range l.served {
			if served.Load() < want[pool] {
				return false
			}
		}
		return true
	})
}

// WaitBegun waits until n answers have begun, since the start.
func (l *Load) WaitBegun(t testing.TB, n int64) {
	t.Helper()
	testkit.WaitFor(t, "answers to begin", func() bool { return l.begun.Load() >= n })
}

// Stop has the clients send no further requests, waits for the answers, and returns the results of all requests.
func (l *Load) Stop() Results {
	l.stop()
	l.clients.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.results
}
