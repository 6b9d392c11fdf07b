package link

import "sync/atomic"

// Limit bounds the streams that several links accept together. Its methods may be called by several goroutines at once.
type Limit struct {
	most int64
	open atomic.Int64
}

// NewLimit returns a limit of so many streams.
func NewLimit(most int) *Limit { return &Limit{most: int64(most)} }

// take counts a stream, and reports whether there is room for it. Without a limit (nil) there is.
func (l *Limit) take() bool {
	if l == nil {
		return true
	}
	if l.open.Add(1) > l.most {
		l.open.Add(-1)
		return false
	}
	return true
}

func (l *Limit) release() {
	if l != nil {
		l.open.Add(-1)
	}
}
