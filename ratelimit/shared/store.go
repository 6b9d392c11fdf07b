package shared

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"colonnade/ratelimit"
)

// prefix begins all keys. The braces keep them in one slot of a Redis Cluster, as a script requires.
const prefix = "{colonnade}:limits:"

//go:embed take.lua
var takeScript string

// store is the common state in Redis.
type store struct {
	client  *redis.Client
	script  *redis.Script
	timeout time.Duration
	seen    atomic.Bool // the state was there: if it is not there again, it was lost
}

var errAnswer = errors.New("redis gave an unexpected answer")

func newStore(url string, timeout time.Duration) (*store, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("the URL of Redis must be redis://[USER:PASSWORD@]HOST:PORT[/DB], or rediss:// for TLS")
	}
	options.MaxRetries, options.ContextTimeoutEnabled = -1, true
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout, options.PoolTimeout = connectTimeout, timeout, timeout, timeout
	return &store{client: redis.NewClient(options), script: redis.NewScript(takeScript), timeout: timeout}, nil
}

// warmUp makes a connection and sends the script, which may take longer than an answer.
func (s *store) warmUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	_ = s.script.Load(ctx, s.client).Err() // a request finds out
}

// take applies the adjustments and then takes what is demanded, in one round trip.
func (s *store) take(settled []adjustment, demands []ratelimit.Demand, spent func(key string) float64, now time.Time) ([]ratelimit.Level, error) {
	call := scriptCall{keys: []string{prefix + "since"}, args: []any{s.seen.Load()}}
	for i := range settled {
		call.adjust(&settled[i], now)
	}
	for i := range demands {
		call.demand(&demands[i], spent, now)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	answer, err := s.script.Run(ctx, s.client, call.keys, call.args...).StringSlice()
	if err != nil {
		return nil, err
	}
	s.seen.Store(true)
	return levels(demands, answer, now)
}

// scriptCall is what take.lua gets.
type scriptCall struct {
	keys []string
	args []any
}

func (c *scriptCall) add(key, operation string, a, b, d any) {
	c.keys = append(c.keys, prefix+key)
	c.args = append(c.args, operation, a, b, d)
}

func (c *scriptCall) adjust(a *adjustment, now time.Time) {
	switch {
	case a.IsBudget():
		c.add(a.Key, "spend", 0, a.Amount, keptFor(&a.Demand, now))
	case a.merge:
		c.add(a.Key, "merge", interval(a.Limit), a.Amount, ratelimit.Burst(a.Limit).Microseconds())
	default:
		c.add(a.Key, "add", interval(a.Limit), a.Amount, ratelimit.Burst(a.Limit).Microseconds())
	}
}

func (c *scriptCall) demand(d *ratelimit.Demand, spent func(key string) float64, now time.Time) {
	if d.IsBudget() {
		c.add(d.Key, "budget", d.Limit, spent(d.Key), keptFor(d, now))
		return
	}
	c.add(d.Key, "rate", interval(d.Limit), ratelimit.Room(d.Limit, d.Amount), ratelimit.Burst(d.Limit).Microseconds())
}

// interval returns the time of one unit in microseconds.
func interval(limit float64) float64 { return float64(time.Minute/time.Microsecond) / limit }

// keptFor returns for how many milliseconds the sum of a budget is kept: an hour longer than its period, for nodes whose clocks are behind.
func keptFor(d *ratelimit.Demand, now time.Time) int64 {
	return max(d.Ends.Sub(now)+time.Hour, time.Minute).Milliseconds()
}

// levels reads the answer of the script.
func levels(demands []ratelimit.Demand, answer []string, now time.Time) ([]ratelimit.Level, error) {
	if len(answer) != 2*len(demands) {
		return nil, fmt.Errorf("%w: %d values for %d limits", errAnswer, len(answer), len(demands))
	}
	found := make([]ratelimit.Level, len(demands))
	for i := range demands {
		d := &demands[i]
		state, err1 := strconv.ParseFloat(answer[2*i], 64)
		wait, err2 := strconv.ParseFloat(answer[2*i+1], 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%w: %w", errAnswer, err)
		}
		if d.IsBudget() {
			found[i] = ratelimit.BudgetLevel(d.Limit, state, d.Ends.Sub(now))
			continue
		}
		found[i] = ratelimit.RateLevel(d.Limit, time.Duration(state)*time.Microsecond, time.Duration(wait)*time.Microsecond)
	}
	if ratelimit.Allowed(found) {
		for i := range demands {
			if d := &demands[i]; !d.IsBudget() {
				found[i].Taken = ratelimit.Room(d.Limit, d.Amount)
			}
		}
	}
	return found, nil
}
