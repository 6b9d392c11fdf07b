package ship

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// moreEvents is how many events a batch that the sink has rejected as a whole may have above its bound.
	moreEvents = 100
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

// refusals are the events of a batch that a sink has rejected. They are skipped once the sink has taken another event of the batch: until
// then, the sink may reject everything, whatever it is.
type refusals struct {
	each  []refusal
	n     int   // events
	first error // about the whole batch
}

// refusal says why a sink has rejected an event, or several of which it does not say which.
type refusal struct {
	id  string // empty = unknown
	why error
}

// deliver sends a batch, made of so many events that were passed, until the sink has taken it but for events that it has rejected. As long as
// it rejects all of them, the batch is kept, and gets what follows in the journal. It returns false if it ended before that, since ctx is done
// and the sink fails.
func (s *Shipper) deliver(ctx, work context.Context, b *Batch, passed int) bool {
	most := bounds{s.config.BatchEvents + moreEvents, len(b.raw) + s.config.BatchBytes} // a single event may be longer than a batch
	for b.Len() > 0 {
		var no refusals
		taken, ok := s.send(ctx, work, b, &no)
		if !ok {
			return false
		}
		if taken > 0 {
			s.skip(&no)
			break
		}
		wait := s.retry.wait(nil)
		s.failed(fmt.Errorf("it rejects every event: %w", no.first))
		if ctx.Err() != nil || work.Err() != nil {
			return false
		}
		ctxtime.Sleep(ctx, wait)
		s.fill(ctx, b, most, &passed)
	}
	s.countFiltered(b)
	return true
}

// send sends a batch, or parts of it, until each event was taken or rejected. It returns how many were taken.
func (s *Shipper) send(ctx, work context.Context, b *Batch, no *refusals) (taken int, ok bool) {
	for {
		err := s.attempt(work, b)
		var rejected *RejectedError
		switch {
		case err == nil:
			s.succeeded(b.Len())
			return b.Len(), true
		case errors.As(err, &rejected):
			no.first = cmp.Or(no.first, err)
			return s.rejected(ctx, work, b, no, rejected)
		}
		wait := s.retry.wait(err)
		s.failed(err)
		if ctx.Err() != nil || work.Err() != nil {
			return 0, false
		}
		ctxtime.Sleep(ctx, wait)
	}
}

// check looks at the receiver without an event, so that an operator sees at the start what is wrong.
func (s *Shipper) check(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err := s.sink.Check(limited)
	switch {
	case err == nil:
		s.succeeded(0)
	case ctx.Err() == nil:
		s.checkAt = time.Now().Add(s.retry.wait(err))
		s.failed(err)
	}
}

func (s *Shipper) attempt(work context.Context, b *Batch) error {
	ctx, cancel := context.WithTimeout(work, sendTimeout)
	defer cancel()
	return s.sink.Send(ctx, b)
}

// rejected notes what the sink has rejected, or sends the batch in halves to find that.
func (s *Shipper) rejected(ctx, work context.Context, b *Batch, no *refusals, why *RejectedError) (taken int, ok bool) {
	switch n := b.Len(); {
	case len(why.Events) > 0:
		for _, i := range why.Events {
			no.add(1, eventID(b.Line(i)), why)
		}
		return s.took(n - len(why.Events)), true
	case why.Lost > 0:
		no.add(min(why.Lost, n), "", why)
		return s.took(n - min(why.Lost, n)), true
	case n == 1:
		no.add(1, eventID(b.Line(0)), why)
		return 0, true
	default:
		first, ok := s.send(ctx, work, b.part(0, n/2), no)
		if !ok {
			return first, false
		}
		second, ok := s.send(ctx, work, b.part(n/2, n), no)
		return first + second, ok
	}
}

// add adds n events, of which the id may be known.
func (r *refusals) add(n int, id string, why error) {
	r.n, r.each = r.n+n, append(r.each, refusal{id, why})
}

// skip counts and logs events that the sink has rejected.
func (s *Shipper) skip(no *refusals) {
	if no.n == 0 {
		return
	}
	for _, r := range no.each {
		s.config.Logger.Error("the sink has rejected an event for good; it is skipped", "event_id", r.id, "error", r.why)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Rejected += uint64(no.n)
	s.stats.LastRejected, s.stats.RejectedAt = no.each[len(no.each)-1].why.Error(), time.Now()
}

func (s *Shipper) countFiltered(b *Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Filtered += uint64(b.filtered)
}

// took notes that the sink has taken n events of a batch, if it has taken any, and returns n.
func (s *Shipper) took(n int) int {
	if n > 0 {
		s.succeeded(n)
	}
	return n
}

// succeeded notes an attempt with which the sink has taken n events, or a check.
func (s *Shipper) succeeded(n int) {
	s.retry.reset()
	s.checked = true
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
