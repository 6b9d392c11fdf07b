package gossip

import (
	"context"
	"log"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// The log may have logBurst lines of the library at once, and then one each logInterval: outsiders cause lines by what they send.
const (
	logBurst    = 5
	logInterval = 10 * time.Second
	// maxLine bounds a line, in bytes.
	maxLine = 500
)

// libraryLog turns lines such as "[WARN] memberlist: text" into records. Errors of the library are mostly packets that were
// lost or cannot be read, and are logged at level debug; the events that matter are logged by the adapter.
type libraryLog struct {
	target     *slog.Logger
	limit      *rate.Limiter
	suppressed atomic.Int64 // lines since the last that was logged
	closed     atomic.Bool
}

func newLibraryLog(target *slog.Logger) *libraryLog {
	return &libraryLog{target: target, limit: rate.NewLimiter(rate.Every(logInterval), logBurst)}
}

// logger returns the logger for the library.
func (l *libraryLog) logger() *log.Logger { return log.New(l, "", 0) } //nolint:forbidigo // the library takes no other

// close drops all later lines: a goroutine of the library may end after the member.
func (l *libraryLog) close() { l.closed.Store(true) }

// Write takes one line.
func (l *libraryLog) Write(line []byte) (int, error) {
	level, text := parseLine(string(line))
	if l.closed.Load() || !l.target.Enabled(context.Background(), level) {
		return len(line), nil
	}
	if !l.limit.Allow() {
		l.suppressed.Add(1)
		return len(line), nil
	}
	l.target.Log(context.Background(), level, "reported by memberlist", "text", text, "suppressed", l.suppressed.Swap(0))
	return len(line), nil
}

// parseLine returns the level for a line of the library, and its text without control characters.
func parseLine(line string) (slog.Level, string) {
	level := slog.LevelDebug
	text := strings.TrimSpace(line[:min(len(line), maxLine)])
	if tag, rest, found := strings.Cut(text, "] "); found && strings.HasPrefix(tag, "[") {
		if tag == "[WARN" {
			level = slog.LevelInfo
		}
		text = strings.TrimPrefix(rest, "memberlist: ")
	}
	return level, strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
