package ship_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/analytics/ship"
	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyMain(m) }

// sink takes batches as a test says.
type sink struct {
	ship.Receiver

	send func(*ship.Batch) error // nil = takes all

	mu     sync.Mutex // guards the fields below
	events []string   // request ids of all that were taken, in order
	ids    []string   // of batches, also of those that were not taken
	most   int        // events in a batch
	closed bool
}

func (s *sink) Send(_ context.Context, b *ship.Batch) error {
	s.mu.Lock()
	s.ids, s.most = append(s.ids, b.ID()), max(s.most, b.Len())
	s.mu.Unlock()
	if s.send != nil {
		if err := s.send(b); err != nil {
			return err
		}
	}
	events, err := b.Events()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		s.events = append(s.events, e.RequestID)
	}
	return err
}

func (s *sink) Close() error { s.closed = true; return nil }

func (s *sink) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

func openJournal(t testing.TB, c journal.Config) *journal.Log {
	t.Helper()
	c.Node = "ams-1"
	l, err := journal.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func event(i int) *analytics.Event {
	e := &analytics.Event{
		EventID: fmt.Sprintf("id-%d", i), RequestID: fmt.Sprint(i), Kind: analytics.KindInference, Phase: analytics.PhaseEnd, Account: "acme",
		Outcome: analytics.OutcomeCompleted, PromptTokens: i,
	}
	if i%3 == 0 {
		e.Kind, e.Outcome, e.Account = analytics.KindRequest, analytics.OutcomeRefused, `q"uo\te`
	}
	return e
}

func appendEvents(l *journal.Log, from, to int) {
	for i := from; i < to; i++ {
		l.Append(event(i))
	}
}

// kindOf returns 1 for the request ids of refusals, and else 0.
func kindOf(request string) int {
	if i, _ := strconv.Atoi(request); i%3 == 0 {
		return 1
	}
	return 0
}

func config(dir string) ship.Config {
	return ship.Config{Dir: dir, Node: "ams-1", Name: "test", BatchEvents: 10, BatchBytes: 1 << 20, Every: 20 * time.Millisecond, Flush: time.Minute}
}

func open(t testing.TB, c ship.Config, to ship.Sink) *ship.Shipper {
	t.Helper()
	s, err := ship.Open(c, to)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a shipper until the returned function is called, which lets it flush and closes it.
func run(t testing.TB, s *ship.Shipper) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	var once sync.Once
	end = func() {
		once.Do(func() {
			cancel()
			<-done
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(end)
	return end
}

// ship ships once what is there.
func shipOnce(t *testing.T, c ship.Config, to ship.Sink) ship.Stats {
	t.Helper()
	c.Once = true
	s := open(t, c, to)
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	stats := s.Stats()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return stats
}

func numbers(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// wantTaken compares what a sink has, in the order of each kind of events: of several kinds, those are merged that are there at one moment.
func wantTaken(t *testing.T, s *sink, want []string) {
	t.Helper()
	byKind := func(requests []string) []string {
		slices.SortStableFunc(requests, func(a, b string) int { return kindOf(a) - kindOf(b) })
		return requests
	}
	if got := byKind(s.taken()); !slices.Equal(got, byKind(want)) {
		t.Errorf("the sink has %d events %.200q, want %d %.200q", len(got), got, len(want), want)
	}
}

func TestShipsInOrderAndOnlyOnce(t *testing.T) {
	dir, to := t.TempDir(), &sink{}
	l := openJournal(t, journal.Config{Dir: dir})
	appendEvents(l, 0, 25)
	end := run(t, open(t, config(dir), to))
	testkit.WaitFor(t, "the first events", func() bool { return len(to.taken()) == 25 })
	appendEvents(l, 25, 60)
	end() // sends what is there
	wantTaken(t, to, numbers(0, 60))
	if to.most != 10 || !to.closed {
		t.Errorf("the largest batch had %d events; closed: %v", to.most, to.closed)
	}
	appendEvents(l, 60, 70)
	again := &sink{}
	if s := shipOnce(t, config(dir), again); s.Shipped != 10 || s.LagEvents != 0 || s.LagSeconds != 0 {
		t.Errorf("%+v", s)
	}
	wantTaken(t, again, numbers(60, 70))
}

func TestFilters(t *testing.T) {
	dir := t.TempDir()
	l := openJournal(t, journal.Config{Dir: dir})
	appendEvents(l, 0, 30)
	f := func(name string, filter ship.Filter, want int) {
		t.Helper()
		c, to := config(dir), &sink{}
		c.Name, c.Filter = name, filter
		if s := shipOnce(t, c, to); len(to.taken()) != want || s.Filtered != uint64(30-want) || s.LagEvents != 0 {
			t.Errorf("%s: %d events, %+v", name, len(to.taken()), s)
		}
		if s := shipOnce(t, c, to); s.Filtered != 0 {
			t.Errorf("%s: the position was not kept: %+v", name, s)
		}
	}
	f("none", ship.Filter{}, 30)
	f("kind", ship.Filter{Kinds: []analytics.Kind{analytics.KindRequest, analytics.KindForward}}, 10)
	f("account", ship.Filter{Accounts: []string{`q"uo\te`}}, 10)
	f("both", ship.Filter{Accounts: []string{"acme", "other"}, Kinds: []analytics.Kind{analytics.KindRequest}}, 0)
}

// The position goes on while no event is for the sink, and each is counted once. The end does not wait for all of them.
func TestFilterLeavesOutMany(t *testing.T) {
	dir, to := t.TempDir(), &sink{}
	const many = 100_010
	l := openJournal(t, journal.Config{Dir: dir})
	appendEvents(l, 0, many)
	c := config(dir)
	c.Filter.Accounts = []string{"none"}
	if stats := shipOnce(t, c, to); stats.Filtered != many || stats.LagEvents != 0 {
		t.Errorf("%d of %d events were left out, %d are left", stats.Filtered, many, stats.LagEvents)
	}
	c.Name, c.Flush = "ended", 0
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := open(t, c, to)
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	if stats := s.Stats(); stats.LagEvents != 10 {
		t.Errorf("%d events are left at the end, want 10: %+v", stats.LagEvents, stats)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A batch that is rejected as a whole gets a further event, however many the filter leaves out in between, and however long its own is.
func TestRejectedBatchGetsAnotherEvent(t *testing.T) {
	f := func(name string, first *analytics.Event, between int) {
		t.Helper()
		dir := t.TempDir()
		l := openJournal(t, journal.Config{Dir: dir})
		l.Append(first)
		for i := range between {
			l.Append(event(3*i + 1))
		}
		l.Append(event(300_000))
		attempts := 0
		to := &sink{send: func(b *ship.Batch) error {
			if attempts++; b.Len() == 1 {
				return ship.Rejected(errors.New("no"))
			}
			return nil
		}}
		c := config(dir)
		c.BatchBytes, c.Filter.Accounts = 1<<10, []string{event(0).Account}
		if s := shipOnce(t, c, to); s.Shipped != 2 || attempts != 2 {
			t.Errorf("%s: %d attempts, %+v", name, attempts, s)
		}
	}
	f("many that are left out", event(0), 100_010)
	long := event(0)
	long.Detail = strings.Repeat("x", 3<<10)
	f("a long event", long, 0)
}

// The lag is that of the oldest event also while a batch is filled.
func TestLagOfABacklog(t *testing.T) {
	dir := t.TempDir()
	l := openJournal(t, journal.Config{Dir: dir})
	for i := range 40 {
		e := event(i)
		e.Time = time.Now().Add(-time.Hour)
		l.Append(e)
	}
	c := config(dir)
	c.MaxRate = 100
	s := open(t, c, &sink{})
	end := run(t, s)
	testkit.WaitFor(t, "the first batch", func() bool { return s.Stats().Shipped > 0 })
	for stats := s.Stats(); stats.LagEvents > 0; stats = s.Stats() {
		if stats.LagSeconds < 3600 {
			t.Fatalf("the lag is %v s with %d events of an hour ago", stats.LagSeconds, stats.LagEvents)
		}
	}
	end()
}

// A lag that cannot be measured is the last that was.
func TestLagOfAJournalThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	l := openJournal(t, journal.Config{Dir: dir})
	appendEvents(l, 0, 40)
	c := config(dir)
	c.Flush = 50 * time.Millisecond
	s := open(t, c, hanging{})
	end := run(t, s)
	testkit.WaitFor(t, "the lag", func() bool { return s.Stats().LagEvents == 40 })
	events := filepath.Join(dir, "events", "ams-1")
	if err := errors.Join(os.Rename(events, events+".moved"), os.WriteFile(events, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if stats := s.Stats(); stats.LagEvents != 40 || stats.Dropped != 0 {
		t.Errorf("%d events are left, %d were dropped; want 40, and none", stats.LagEvents, stats.Dropped)
	}
	if err := errors.Join(os.Remove(events), os.Rename(events+".moved", events)); err != nil {
		t.Fatal(err)
	}
	end()
}

// A sink that fails gets the same batch again, and the order stays.

func TestRetries(t *testing.T) {
	dir := t.TempDir()
	l := openJournal(t, journal.Config{Dir: dir})
	appendEvents(l, 0, 30)
	attempts := 0
	to := &sink{send: func(*ship.Batch) error {
		if attempts++; attempts%2 == 1 {
			return errors.New("away")
		}
		return nil
	}}
	s := shipOnce(t, config(dir), to)
	wantTaken(t, to, numbers(0, 30))
	if s.Failures != 3 || s.Failing != "" || s.Shipped != 30 || to.ids[0] != to.ids[1] || to.ids[1] == to.ids[2] {
		t.Errorf("%+v, batches %q", s, to.ids)
	}
}

func TestObeysRetryAfter(t *testing.T) {
	dir := t.TempDir()
	l := openJournal(t, journal.Config{Dir: dir})
	appendEvents(l, 0, 1)
	var attempts []time.Time
	to := &sink{send: func(*ship.Batch) error {
		if attempts = append(attempts, time.Now()); len(attempts) == 1 {
			return ship.RetryAfter(errors.New("busy"), 700*time.Millisecond)
		}
		return nil
	}}
	shipOnce(t, config(dir), to)
	if len(attempts) != 2 || attempts[1].Sub(attempts[0]) < 700*time.Millisecond {
		t.Errorf("attempts at %v", attempts)
	}
}

// A sink that is away until segments are dropped: what it gets and what it has missed is exactly what was appended.
func TestCountsWhatASinkHasMissed(t *testing.T) {
	dir := t.TempDir()
	c := journal.Config{Dir: dir, SegmentBytes: 8 << 10, MaxBytes: 20 * 8 << 10}
	l := openJournal(t, c)
	away := errors.New("away")
	var mu sync.Mutex
	to := &sink{send: func(*ship.Batch) error { mu.Lock(); defer mu.Unlock(); return away }}
	s := open(t, config(dir), to)
	end := run(t, s)
	const all = 5000
	appendEvents(l, 0, all)
	testkit.WaitFor(t, "a failure", func() bool { return s.Stats().Failing != "" })
	stats := s.Stats()
	if stats.Dropped == 0 || stats.Dropped+stats.LagEvents != all || stats.LagSeconds <= 0 {
		t.Errorf("while it is away: %+v", stats)
	}
	mu.Lock()
	away = nil
	mu.Unlock()
	testkit.WaitFor(t, "the rest", func() bool { return s.Stats().LagEvents == 0 })
	end()
	stats = s.Stats()
	if got := uint64(len(to.taken())); got+stats.Dropped != all || stats.Shipped != got || stats.Rejected != 0 {
		t.Errorf("%d events were taken, %+v", got, stats)
	}
	if again := shipOnce(t, config(dir), &sink{}); again.Dropped != stats.Dropped {
		t.Errorf("after a restart: %+v, before: %+v", again, stats)
	}
}

// A backlog takes as long as the rate says, and the end does not wait for that.
func TestRateIsBounded(t *testing.T) {
	dir := t.TempDir()
	l := openJournal(t, journal.Config{Dir: dir})
	appendEvents(l, 0, 50)
	c, to, began := config(dir), &sink{}, time.Now()
	c.MaxRate = 100
	shipOnce(t, c, to)
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("50 events took %s", took)
	}
	wantTaken(t, to, numbers(0, 50))
	c.Name, c.MaxRate, to = "slow", 1, &sink{}
	run(t, open(t, c, to))()
	wantTaken(t, to, numbers(0, 50))
}

// An event of another kind comes in its turn while a backlog never ends.
func TestBacklogHoldsUpNoOtherKind(t *testing.T) {
	dir := t.TempDir()
	l := openJournal(t, journal.Config{Dir: dir})
	const refusal = 0 // the request id of the only one
	next, endless := 1, true
	more := func(n int) {
		for ; n > 0; next++ {
			if kindOf(strconv.Itoa(next)) == 0 {
				l.Append(event(next))
				n--
			}
		}
	}
	more(1000) // more than is read at once
	to, batches := &sink{}, 0
	to.send = func(*ship.Batch) error {
		switch batches++; {
		case batches == 3:
			l.Append(event(refusal))
		case slices.Contains(to.taken(), strconv.Itoa(refusal)):
			endless = false
		case batches == 500:
			endless = false
			t.Error("the refusal was not sent while other events came")
		}
		if endless {
			more(10)
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	}
	shipOnce(t, config(dir), to)
}

// A sink that hangs does not hold up the end for longer than the flush may take.
func TestEndIsBounded(t *testing.T) {
	dir := t.TempDir()
	l := openJournal(t, journal.Config{Dir: dir})
	appendEvents(l, 0, 5)
	c := config(dir)
	c.Flush = 50 * time.Millisecond
	s := open(t, c, hanging{})
	end := run(t, s)
	testkit.WaitFor(t, "a batch in flight", func() bool { return s.Stats().LagEvents == 5 })
	end()
	again := &sink{}
	shipOnce(t, config(dir), again)
	wantTaken(t, again, numbers(0, 5))
}

type hanging struct{ ship.Receiver }

func (hanging) Send(ctx context.Context, _ *ship.Batch) error { <-ctx.Done(); return ctx.Err() }
func (hanging) Close() error                                  { return nil }
