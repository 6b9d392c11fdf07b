//go:build !portable

package netconn

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// shortGap is the longest time between two pieces of a fast stream. The kernel delays an acknowledgement by 40 ms, so only a stream that is
	// faster than that gains by it.
	shortGap = 20 * time.Millisecond
	// shortGaps is how many gaps in a row make a stream fast.
	shortGaps = 16
	// longGaps is how many gaps in a row make a fast stream slow again.
	longGaps = 2
)

// acks delays the acknowledgements of a fast stream. The kernel acknowledges each small piece at once where nothing is sent the other way,
// which costs a tenth of what the piece costs in all; if it may delay them, it acknowledges every second one.
//
// A sender with Nagle's algorithm (RFC 896) waits for each acknowledgement, so its pieces would come 40 ms late: such a
// stream looks slow, and its acknowledgements are sent at once until it ends.
type acks struct {
	mode  ackMode
	short int // gaps in a row
	long  int // gaps in a row
}

type ackMode uint8

const (
	acksAtOnce ackMode = iota
	acksDelayed
	acksAtOnceForGood
)

// received takes the time between the last two pieces of a stream on a socket.
func (a *acks) received(fd int, gap time.Duration) {
	if gap <= shortGap {
		a.short, a.long = a.short+1, 0
	} else {
		a.short, a.long = 0, a.long+1
	}
	switch {
	case a.mode == acksAtOnce && a.short >= shortGaps:
		a.mode = acksDelayed
		setQuickACK(fd, 0)
	case a.mode == acksDelayed && a.long >= longGaps:
		a.end(fd)
	}
}

// end has the kernel acknowledge at once again.
func (a *acks) end(fd int) {
	if a.mode == acksDelayed {
		a.mode = acksAtOnceForGood
		setQuickACK(fd, 1)
	}
}

// setQuickACK ignores errors: the kernel may change the mode by itself as well.
func setQuickACK(fd, value int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, value)
}
