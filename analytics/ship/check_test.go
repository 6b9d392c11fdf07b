package ship_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/analytics/journal"
	"colonnade/internal/testkit"
)

// checking is a sink that may fail its check.
type checking struct {
	sink
	well   atomic.Bool
	checks atomic.Int64
}

func (c *checking) Check(context.Context) error {
	if c.checks.Add(1); c.well.Load() {
		return nil
	}
	return errors.New("table=other: it has other columns")
}

// A fault of a sink is known without an event, is logged once, and is over once the sink is right.
func TestCheckedWithoutEvents(t *testing.T) {
	dir := t.TempDir()
	l := openJournal(t, journal.Config{Dir: dir})
	var log testkit.SyncBuffer
	c, to := config(dir), &checking{}
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := open(t, c, to)
	end := run(t, s)
	testkit.WaitFor(t, "several checks", func() bool { return to.checks.Load() >= 3 })
	if stats := s.Stats(); !strings.Contains(stats.Failing, "table=other") || stats.LagEvents != 0 {
		t.Errorf("while it is wrong: %+v", stats)
	}
	to.well.Store(true)
	testkit.WaitFor(t, "a good check", func() bool { return s.Stats().Failing == "" })
	checks := to.checks.Load()
	appendEvents(l, 0, 5)
	testkit.WaitFor(t, "the events", func() bool { return s.Stats().Shipped == 5 })
	end()
	if n := to.checks.Load(); n != checks {
		t.Errorf("%d further checks of a sink that is well", n-checks)
	}
	if n := strings.Count(log.String(), "table=other: it has other columns"); n != 1 {
		t.Errorf("%d lines about it; the log is\n%s", n, log.String())
	}
}

// A sink that fails its check and takes events nevertheless is well.
func TestEventsGoBeforeTheCheck(t *testing.T) {
	dir, to := t.TempDir(), &checking{}
	appendEvents(openJournal(t, journal.Config{Dir: dir}), 0, 5)
	if stats := shipOnce(t, config(dir), to); stats.Shipped != 5 || stats.Failing != "" {
		t.Errorf("%+v", stats)
	}
}
