package etcd

import (
	"maps"
	"time"

	"golang.org/x/time/rate"
)

// A subject may have logBurst lines at once, and then one each logInterval.
const (
	logBurst    = 4
	logInterval = 15 * time.Second
)

// logLimiter bounds the lines in the log by subject, such as a document that changes all the time.
type logLimiter struct {
	subjects map[string]*limitedSubject
	swept    time.Time
}

type limitedSubject struct {
	*rate.Limiter
	suppressed int // lines since the last one that was allowed
}

// allow reports whether one more line may be written, and how many were suppressed before it.
func (l *logLimiter) allow(subject string, now time.Time) (suppressed int, ok bool) {
	l.sweep(now)
	s := l.subjects[subject]
	if s == nil {
		s = &limitedSubject{Limiter: rate.NewLimiter(rate.Every(logInterval), logBurst)}
		l.subjects[subject] = s
	}
	if !s.AllowN(now, 1) {
		s.suppressed++
		return 0, false
	}
	suppressed, s.suppressed = s.suppressed, 0
	return suppressed, true
}

// sweep forgets the subjects that could have a whole burst again, every now and then.
func (l *logLimiter) sweep(now time.Time) {
	if now.Sub(l.swept) < logBurst*logInterval {
		return
	}
	l.swept = now
	maps.DeleteFunc(l.subjects, func(_ string, s *limitedSubject) bool { return s.TokensAt(now) >= logBurst })
}
