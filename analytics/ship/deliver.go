package ship

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"colonnade/internal/ctxtime"
)

const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 30 * time.Second
	// mostRetryAfter bounds the time that a sink may ask for.
	mostRetryAfter = time.Hour
	// sendTimeout bounds an attempt of a sink that does not bound it itself.
	sendTimeout = 2 * time.Minute
)

// backoff is the time until the next attempt, twice as long after each.
type backoff struct{ next time.Duration }

func (b *backoff) reset() { b.next = 0 }

// wait returns how long to wait after a failure: between half and all of the time.
func (b *backoff) wait(err error) time.Duration {
	b.next = min(max(2*b.next, firstBackoff), lastBackoff)
	wait := b.next/2 + rand.N(b.next/2)
	var retry *RetryError
	if errors.As(err, &retry) {
		return min(max(wait, retry.After), mostRetryAfter)
	}
	return wait
}

// deliver sends a batch until the sink has taken it, or rejected for good what it has not taken. It returns false if it ended before
// that, since ctx is done and the sink fails.
func (s *Shipper) deliver(ctx, work context.Context, b *Batch) bool {
	s.countFiltered(b)
	if b.Len() == 0 {
		return true
	}
	taken, ok := s.send(ctx, work, b)
	if ok && taken == 0 && b.Len() > 1 {
		// A sink that takes none of a batch may not be the right one: it gets the next batch later.
		ctxtime.Sleep(ctx, s.retry.wait(nil))
	}
	return ok
}

// send sends a batch, or parts of it, until each event was taken or rejected. It returns how many were taken.
func (s *Shipper) send(ctx, work context.Context, b *Batch) (taken int, ok bool) {
	for {
		err := s.attempt(work, b)
		var rejected *RejectedError
		switch {
		case err == nil:
			s.succeeded(b.Len())
			return b.Len(), true
		case errors.As(err, &rejected):
			return s.rejected(ctx, work, b, rejected)
		}
		wait := s.retry.wait(err)
		s.failed(err)
		if ctx.Err() != nil || work.Err() != nil {
			return 0, false
		}
		ctxtime.Sleep(ctx, wait)
	}
}

func (s *Shipper) attempt(work context.Context, b *Batch) error {
	ctx, cancel := context.WithTimeout(work, sendTimeout)
	defer cancel()
	return s.sink.Send(ctx, b)
}

// rejected skips what the sink has rejected, or sends the batch in halves to find that.
func (s *Shipper) rejected(ctx, work context.Context, b *Batch, why *RejectedError) (taken int, ok bool) {
	switch n := b.Len(); {
	case len(why.Events) > 0 || why.Lost > 0:
		lost := max(len(why.Events), min(why.Lost, n))
		for _, i := range why.Events {
			s.logRejected(b, i, why)
		}
		if len(why.Events) == 0 {
			s.logRejected(b, -1, why)
		}
		s.countRejected(lost, why)
		s.succeeded(n - lost)
		return n - lost, true
	case n == 1:
		s.logRejected(b, 0, why)
		s.countRejected(1, why)
		return 0, true
	default:
		first, ok := s.send(ctx, work, b.part(0, n/2))
		if !ok {
			return first, false
		}
		second, ok := s.send(ctx, work, b.part(n/2, n))
		return first + second, ok
	}
}

// logRejected logs an event that is skipped, or, if i is negative, that some of the batch are.
func (s *Shipper) logRejected(b *Batch, i int, why error) {
	id := ""
	if i >= 0 && i < b.Len() {
		id = eventID(b.Line(i))
	}
	s.config.Logger.Error("the sink has rejected an event for good; it is skipped", "event_id", id, "error", why)
}

func (s *Shipper) countRejected(n int, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Rejected += uint64(n)
	s.stats.LastRejected, s.stats.RejectedAt = why.Error(), time.Now()
}

func (s *Shipper) countFiltered(b *Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Filtered += uint64(b.filtered)
}

// succeeded notes an attempt with which the sink has taken n events.
func (s *Shipper) succeeded(n int) {
	if n > 0 {
		s.retry.reset()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Shipped += uint64(n)
	if s.stats.Failing != "" {
		s.config.Logger.Info("the sink takes events again", "failing_for", time.Since(s.stats.FailingSince).Round(time.Second).String())
		s.stats.Failing, s.stats.FailingSince = "", time.Time{}
	}
}

// failed notes a failed attempt. The first of a row is logged.
func (s *Shipper) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Failures++
	if s.stats.Failing == "" {
		s.stats.FailingSince = time.Now()
		s.config.Logger.Warn("the sink takes no events; they are kept and sent later", "error", err)
	}
	s.stats.Failing = err.Error()
}
