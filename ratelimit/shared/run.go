package shared

import (
	"context"
	"time"

	"colonnade/internal/ctxtime"
)

const (
	sendDelay      = 100 * time.Millisecond // after which adjustments are sent that no request has taken along
	sendAtOnce     = 500                    // adjustments in one call of the script
	connectTimeout = time.Second
	probeInterval  = 250 * time.Millisecond // between two attempts to reach Redis
	maxProbe       = 30 * time.Second       // the same for a Redis that answers only now and then
	stableAfter    = 10 * time.Second       // of answers, a Redis counts as reached
	writeInterval  = time.Second            // between two writes of the file
)

// Run sends what requests have used to Redis, finds out when Redis answers again, and writes sums of budgets to the file, until ctx ends.
func (l *Limiter) Run(ctx context.Context) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		l.keepFile(ctx)
	}()
	defer func() { <-written }()
	if l.redis == nil {
		return
	}
	defer func() { _ = l.redis.client.Close() }()
	l.runRedis(ctx)
	l.send(time.Now()) // the last requests have ended by now
}

func (l *Limiter) runRedis(ctx context.Context) {
	l.redis.warmUp(ctx)
	interval, reached := probeInterval, time.Now()
	for ctx.Err() == nil {
		if l.away.Load() == nil {
			select {
			case <-l.wake:
				ctxtime.Sleep(ctx, sendDelay)
			case <-ctx.Done():
			}
			if l.away.Load() == nil {
				l.send(time.Now())
			}
			continue
		}
		if time.Since(reached) > stableAfter {
			interval = probeInterval
		}
		ctxtime.Sleep(ctx, interval)
		if ctx.Err() == nil && l.probe(ctx) {
			interval, reached = min(2*interval, maxProbe), time.Now()
		}
	}
}

// probe asks whether Redis answers again. If so, it gets what was used meanwhile, and limits are enforced through it.
func (l *Limiter) probe(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if l.redis.client.Ping(ctx).Err() != nil || !l.send(time.Now()) {
		return false
	}
	l.mu.Lock()
	away := l.away.Swap(nil)
	l.mu.Unlock()
	l.config.Logger.Info("redis answers again; limits are shared", "away_for", time.Since(away.since).Round(time.Millisecond))
	return true
}

// send sends what is unsent. It reports whether Redis has taken it.
func (l *Limiter) send(now time.Time) bool {
	for {
		l.mu.Lock()
		settled := l.unsent.take(sendAtOnce)
		l.mu.Unlock()
		if len(settled) == 0 {
			return true
		}
		if _, err := l.redis.take(settled, nil, nil, now); err != nil {
			l.keepUnsent(settled)
			l.noteAway(err, now)
			return false
		}
	}
}
