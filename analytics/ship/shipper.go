package ship

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"colonnade/analytics/journal"
	"colonnade/internal/ctxtime"
)

const (
	shortestPoll = 10 * time.Millisecond
	longestPoll  = 250 * time.Millisecond
	// slicesPerSecond is how often the shipper looks whether it is ahead of its rate: it passes few events between two looks, so that requests
	// wait no longer for a processor than those take.
	slicesPerSecond = 200
	// mostBehind is how late events may be that are still made up for: about as long as a sink takes for a batch.
	mostBehind = 100 * time.Millisecond
	// leastPause is how long requests have the processor between two slices, at least.
	leastPause = 600 * time.Microsecond
	// mostFiltered is how many events that the filter leaves out are passed before the position is saved.
	mostFiltered = 100_000
)

// Config says which events go where.
type Config struct {
	Dir    string // data directory of the node
	Node   string // whose events
	Name   string // of the sink; part of a file name
	Scheme string // of the sink, for operators
	Filter Filter
	Logger *slog.Logger

	BatchEvents int           // at most in a batch
	BatchBytes  int           // at most in a batch, unless a single event is longer
	Every       time.Duration // longest time that an event waits for others of its batch

	// MaxRate is how many events are passed in a second at most, so that a backlog leaves the processors to others; 0 = no bound. It ends with
	// the context of Run.
	MaxRate int
	// Flush is the longest time that Run goes on after its context is done, to send what is there.
	Flush time.Duration
	// Once makes Run return when all events have been sent that were there.
	Once bool
}

// Shipper sends the events of one node to one sink. Run and Close are for one goroutine, Stats for any.
type Shipper struct {
	config Config
	sink   Sink
	place  *place
	reader *journal.Follower
	retry  backoff

	checked bool      // the receiver is known to be well
	checkAt time.Time // else: when it is checked again, unless there are events

	lookedAt time.Time // when the reader has looked for new events
	lookErr  error     // why it could not, the last time

	due   time.Time // when the next events may be passed, by the rate; zero = now, whatever was passed before
	ahead int       // events that were passed since then

	gaugeMu  sync.Mutex // guards the fields below
	gauge    *journal.Gauge
	behind   journal.Behind // at the last look
	missed   uint64         // events that were dropped, at the last look
	missedAt time.Time      // when their number grew; zero = not since Open

	mu       sync.Mutex // guards the fields below
	stats    Stats
	read     journal.Cursor // behind the batch that is being sent
	pending  uint64         // events before read that the sink has not taken
	oldest   time.Time      // event of the last batch; zero = unknown, or everything was taken
	caughtUp time.Time      // when the sink has taken a batch, or there was nothing for it, last
}

// Open finds where an earlier run has ended; without one, it begins with the oldest event that is kept. The error wraps ErrInUse if another
// process ships under this name. Close closes the sink, too.
func Open(c Config, to Sink) (*Shipper, error) {
	p, from, err := openPlace(c.Dir, c.Node, c.Name, to)
	if err != nil {
		return nil, fmt.Errorf("sink %s: cannot open its position: %w", c.Name, err)
	}
	reader, err := journal.NewFollower(c.Dir, c.Node, from)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sink %s: %w", c.Name, err), p.close())
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("sink", c.Name)
	s := &Shipper{config: c, sink: to, place: p, reader: reader, gauge: journal.NewGauge(c.Dir, c.Node), read: reader.At(), caughtUp: time.Now()}
	s.stats.Name, s.stats.Scheme = c.Name, c.Scheme
	s.missed = s.read.Missed()
	s.save(true) // from here on, what is dropped counts
	return s, nil
}

// Close closes the sink, and lets another process ship. Run must have returned.
func (s *Shipper) Close() error {
	s.save(true)
	return errors.Join(s.sink.Close(), s.place.close())
}

// Run sends events until ctx is done, and then for at most Config.Flush what is there, unless the sink fails.
func (s *Shipper) Run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(s.config.Flush, cancel)
		context.AfterFunc(work, func() { timer.Stop() })
	})
	defer stop()
	b := &Batch{Node: s.config.Node}
	if s.config.MaxRate > 0 {
		b.pause = func() { ctxtime.Sleep(ctx, leastPause) }
	}
	s.check(ctx)
	for {
		passed := s.collect(ctx, b)
		if passed == 0 || !s.deliver(ctx, work, b, passed) {
			return nil
		}
		s.taken()
		if work.Err() != nil {
			return nil
		}
	}
}

// pace notes that an event was passed, and waits after a number of them: until the rate allows more, or for a moment if the shipper is late.
func (s *Shipper) pace(ctx context.Context) {
	s.ahead++
	if s.config.MaxRate <= 0 || s.ahead < max(1, s.config.MaxRate/slicesPerSecond) {
		return
	}
	switch now := time.Now(); {
	case s.due.IsZero():
		s.due = now
	case now.Sub(s.due) > mostBehind:
		s.due = now.Add(-mostBehind)
	}
	s.due = s.due.Add(time.Duration(s.ahead) * time.Second / time.Duration(s.config.MaxRate))
	s.ahead = 0
	ctxtime.Sleep(ctx, max(time.Until(s.due), leastPause))
}

// collect fills the batch, and returns how many events it has passed for that; none if ctx is done and there are none.
func (s *Shipper) collect(ctx context.Context, b *Batch) (passed int) {
	b.reset()
	var first time.Time
	for {
		ending := ctx.Err() != nil // before the last look at the journal
		full := s.fill(ctx, b, bounds{s.config.BatchEvents, s.config.BatchBytes}, &passed)
		now := time.Now()
		if first.IsZero() && passed > 0 {
			first = now
		}
		switch {
		case full, passed > 0 && now.Sub(first) >= s.config.Every:
			return passed
		case ending || s.config.Once:
			return passed
		}
		if passed == 0 {
			s.idle(now)
			if !s.checked && now.After(s.checkAt) {
				s.check(ctx)
			}
		}
		ctxtime.Sleep(ctx, s.poll(first, now))
	}
}

// poll returns how long to wait before the journal is looked at again.
func (s *Shipper) poll(first, now time.Time) time.Duration {
	wait := min(max(s.config.Every/8, shortestPoll), longestPoll)
	if !first.IsZero() {
		wait = min(wait, max(shortestPoll, first.Add(s.config.Every).Sub(now)))
	}
	return wait
}

// bounds are those of a batch.
type bounds struct{ events, bytes int }

// fill adds to the batch what is there, and reports whether it is full. In a backlog, it looks for new events now and then only: of several
// kinds of events, none waits until the others are passed.
func (s *Shipper) fill(ctx context.Context, b *Batch, most bounds, passed *int) (full bool) {
	defer s.progress(passed)
	looked, filtered := false, 0
	for {
		line := s.reader.Peek()
		if !looked && (line == nil || time.Since(s.lookedAt) > longestPoll) {
			looked, s.lookedAt = true, time.Now()
			if s.lookErr = s.reader.Look(); s.lookErr != nil {
				return false
			}
			continue
		}
		if line == nil {
			return false
		}
		if s.config.Filter.keep(line) {
			if b.Len() > 0 && (b.Len() >= most.events || len(b.raw)+len(line) > most.bytes) {
				return true
			}
			if b.Len() == 0 {
				s.begin(b, line)
			}
			b.add(line)
		} else {
			filtered++
			b.filtered++
		}
		s.reader.Next()
		*passed++
		s.pace(ctx)
		if filtered >= mostFiltered {
			return true
		}
	}
}

// begin begins a batch with the event that the reader has found.
func (s *Shipper) begin(b *Batch, line []byte) {
	b.First = s.reader.Position()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest = journal.TimeOf(line)
}

// progress makes known how far the reader has come, and why it cannot read all events, if it cannot. The first error of a row is logged.
func (s *Shipper) progress(passed *int) {
	err := cmp.Or(s.lookErr, s.reader.Err())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read, s.pending = s.reader.At(), uint64(*passed)
	before := s.stats.Unreadable
	if s.stats.Unreadable = ""; err != nil {
		s.stats.Unreadable = err.Error()
	}
	switch now := s.stats.Unreadable; {
	case before == "" && now != "":
		s.config.Logger.Error("cannot read all events; those are sent later", "error", now)
	case before != "" && now == "":
		s.config.Logger.Info("all events can be read again")
	}
}

// idle notes that there is nothing to send.
func (s *Shipper) idle(now time.Time) {
	s.due = time.Time{} // what it did not pass meanwhile is not made up for
	s.mu.Lock()
	if s.oldest = (time.Time{}); s.stats.Unreadable == "" {
		s.caughtUp = now
	}
	s.mu.Unlock()
	if s.place.behind && s.place.isDue() {
		s.save(true) // the last batch of a row
	}
}

// taken notes that the sink has taken the batch as far as it ever will, or that nothing of it was for the sink.
func (s *Shipper) taken() {
	s.mu.Lock()
	s.pending, s.caughtUp = 0, time.Now() // there may be more, which is not much younger than the batch
	s.mu.Unlock()
	s.save(false)
}

// save saves the position. If that fails, events are sent on, and may come again after a restart.
func (s *Shipper) save(sync bool) {
	s.mu.Lock()
	at, before := s.read, s.stats.Unsaved
	unsafe := s.pending > 0
	s.mu.Unlock()
	if unsafe {
		return // the position stands behind events that were not taken
	}
	text := ""
	if err := s.place.save(at, sync); err != nil {
		text = err.Error()
	}
	if text != "" && before == "" {
		s.config.Logger.Error("cannot save the position of the sink; after a restart, events are sent again", "error", text)
	}
	s.mu.Lock()
	s.stats.Unsaved = text
	s.mu.Unlock()
}
