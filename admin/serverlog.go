package admin

import (
	"bytes"
	"log"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
)

// logInterval is the shortest time between two log lines about one kind of problem.
const logInterval = time.Minute

// serverLog writes what net/http logs to a node's log, in the form of its other lines.
type serverLog struct {
	logger        *slog.Logger
	accept, other rate.Sometimes
}

func newServerLog(logger *slog.Logger) *log.Logger {
	every := func() rate.Sometimes { return rate.Sometimes{Interval: logInterval} }
	return log.New(&serverLog{logger: logger, accept: every(), other: every()}, "", 0)
}

// Write implements io.Writer for package log, which calls it with one message at a time. While file descriptors are short, net/http
// reports each attempt to accept a connection.
func (l *serverLog) Write(message []byte) (int, error) {
	what, lines := "problem of an admin page; the next ones are not logged for a minute", &l.other
	if bytes.HasPrefix(message, []byte("http: Accept error")) {
		what, lines = "cannot accept admin connections; if file descriptors are exhausted, raise their limit (ulimit -n, LimitNOFILE)", &l.accept
	}
	lines.Do(func() { l.logger.Error(what, "error", string(bytes.TrimSpace(message))) })
	return len(message), nil
}
