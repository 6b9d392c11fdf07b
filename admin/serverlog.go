package admin

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// logInterval is the shortest time between two log lines about one kind of problem.
const logInterval = time.Minute

// serverLog handles what net/http logs: it gives the lines the form of a node's other lines, and bounds them. While file descriptors
// are short, net/http reports each attempt to accept a connection.
type serverLog struct {
	slog.Handler
	logger        *slog.Logger
	accept, other rate.Sometimes
}

func newServerLog(logger *slog.Logger) *serverLog {
	return &serverLog{
		Handler: logger.Handler(), logger: logger, accept: rate.Sometimes{Interval: logInterval}, other: rate.Sometimes{Interval: logInterval},
	}
}

// Handle implements slog.Handler. The record's message is all that net/http logs.
func (l *serverLog) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "http: Accept error") {
		l.accept.Do(func() {
			l.logger.Error("cannot accept admin connections; if file descriptors are exhausted, raise their limit (ulimit -n, LimitNOFILE)", "error", r.Message)
		})
		return nil
	}
	l.other.Do(func() {
		l.logger.Error("problem of an admin page; the next ones are not logged for a minute", "error", r.Message)
	})
	return nil
}
