package colo

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"colonnade/analytics/journal"
)

// stuckDisk makes a log hang in the event that comes next, as a disk does that stalls: the log says that it cannot be
// written, with its lock held, until the test releases it.
type stuckDisk struct {
	slog.Handler
	log    *journal.Log
	stalls chan struct{} // closed once an event hangs
	goesOn chan struct{} // to be closed by the test
	panics chan struct{} // likewise, before: it panics instead
}

func newStuckDisk() *stuckDisk {
	return &stuckDisk{Handler: slog.DiscardHandler, stalls: make(chan struct{}), goesOn: make(chan struct{}), panics: make(chan struct{})}
}

func (d *stuckDisk) stall() { _ = d.log.Close() }

// Enabled makes Handle be called.
func (d *stuckDisk) Enabled(context.Context, slog.Level) bool { return true }

// Handle hangs, or panics.
func (d *stuckDisk) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "events are being lost") {
		select {
		case <-d.panics:
			panic("a bug of ours")
		default:
		}
		close(d.stalls)
		<-d.goesOn
	}
	return nil
}

// engine makes handler the only engine, of the model "late". It is asked for nothing but answers.
func (s *testServer) engine(handler http.HandlerFunc) {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost { // and no probe
			handler(w, r)
		}
	}))
	s.t.Cleanup(engine.Close)
	s.apply(strings.ReplaceAll(lateModel, "%ENGINE", engine.URL))
}
