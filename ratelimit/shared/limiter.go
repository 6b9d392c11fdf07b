package shared

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/ratelimit"
)

// Config configures a Limiter. All fields but Redis and File are required.
type Config struct {
	Redis   string        // URL; empty = none
	Timeout time.Duration // for one answer of Redis
	Nodes   func() int    // number of live nodes that enforce the same limits
	File    string        // where sums of budgets are kept across restarts; empty = nowhere
	Logger  *slog.Logger
}

// DefaultTimeout is the time after which a Redis that has not answered counts as away. It allows for an entry that is busy for a moment: to
// count Redis as away empties the buckets.
const DefaultTimeout = 250 * time.Millisecond

// Limiter enforces limits. It is safe for concurrent use.
type Limiter struct {
	config  Config
	redis   *store // nil = none
	buckets *ratelimit.Buckets
	away    atomic.Pointer[absence] // nil = Redis answers, or there is none
	changed atomic.Bool             // budgets, since they were written to the file

	wake chan struct{}

	mu     sync.Mutex // guards the field below, and the change of away
	unsent unsent
}

// absence is a time during which Redis does not answer.
type absence struct {
	since time.Time
	err   error
}

// New returns a Limiter. The caller calls Run.
func New(c Config) (*Limiter, error) {
	spent, err := readSpendings(c.File)
	if err != nil {
		return nil, err
	}
	l := &Limiter{config: c, buckets: ratelimit.NewBuckets(spent), unsent: unsent{}, wake: make(chan struct{}, 1)}
	if c.Redis != "" {
		l.redis, err = newStore(c.Redis, c.Timeout)
	}
	return l, err
}

// Take takes what a request demands, if each limit has it, and nothing otherwise. It returns the level of each limit, in the order of the
// demands.
func (l *Limiter) Take(demands []ratelimit.Demand, now time.Time) []ratelimit.Level {
	if l.redis == nil {
		return l.buckets.Take(demands, l.share(), now)
	}
	if l.away.Load() == nil {
		levels, err := l.takeShared(demands, now)
		if err == nil {
			return levels
		}
		l.noteAway(err, now)
	}
	levels := l.buckets.Take(demands, l.share(), now)
	if ratelimit.Allowed(levels) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range demands {
			if d := demands[i]; !d.IsBudget() {
				d.Amount = levels[i].Taken
				l.unsent.add(&d, true)
			}
		}
	}
	return levels
}

// Settle takes the amount of each demand, whether the limit has it or not. A negative amount is returned. It does not wait for Redis.
func (l *Limiter) Settle(demands []ratelimit.Demand, now time.Time) {
	alone := l.redis == nil || l.away.Load() != nil
	for i := range demands {
		if demands[i].IsBudget() {
			l.changed.Store(true)
		}
		if alone || demands[i].IsBudget() {
			l.buckets.Settle(demands[i:i+1], l.share(), now)
		}
	}
	if l.redis == nil {
		return
	}
	l.mu.Lock()
	for i := range demands {
		l.unsent.add(&demands[i], alone)
	}
	l.mu.Unlock()
	l.wakeRun()
}

// wakeRun makes Run look at what there is to do.
func (l *Limiter) wakeRun() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// share returns the part of each limit that this node enforces by itself.
func (l *Limiter) share() float64 { return 1 / float64(max(l.config.Nodes(), 1)) }

// takeShared is Take in Redis. It also sends what is unsent about the same limits.
func (l *Limiter) takeShared(demands []ratelimit.Demand, now time.Time) ([]ratelimit.Level, error) {
	l.mu.Lock()
	settled := l.unsent.takeOf(demands)
	l.mu.Unlock()
	levels, err := l.redis.take(settled, demands, l.buckets.Spent, now)
	if err != nil {
		l.keepUnsent(settled)
		return nil, err
	}
	for i := range demands {
		if d := &demands[i]; d.IsBudget() {
			l.buckets.NoteCommon(d, levels[i].Spent)
		}
	}
	return levels, nil
}

// keepUnsent keeps adjustments that may not have arrived. Units are not returned a second time.
func (l *Limiter) keepUnsent(settled []adjustment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range settled {
		if a.Amount > 0 {
			l.unsent.add(&a.Demand, a.merge)
		}
	}
}

// noteAway makes the node enforce its share.
func (l *Limiter) noteAway(err error, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away.Load() != nil {
		return
	}
	l.buckets.Restart(now)
	l.wakeRun()
	l.away.Store(&absence{now, err})
	l.config.Logger.Warn("redis does not answer; enforcing this node's share of limits", "share", l.share(), "error", err)
}

// State is what a Limiter reports about itself.
type State struct {
	Redis bool      // limits are enforced through Redis
	Away  time.Time // since when it does not answer; zero = it does
	Err   error     // why
	Nodes int       // that share the limits while it does not answer, or if there is none
}

// State returns the state of the limiter.
func (l *Limiter) State() State {
	s := State{Redis: l.redis != nil, Nodes: max(l.config.Nodes(), 1)}
	if away := l.away.Load(); away != nil {
		s.Away, s.Err = away.since, away.err
	}
	return s
}
