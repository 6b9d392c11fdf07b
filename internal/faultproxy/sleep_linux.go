//go:build !portable

package faultproxy

import (
	"syscall"
	"time"
)

// slept is the end of a delay that a thread sleeps: timers of Go wait for epoll, which counts in milliseconds.
const slept = 2 * time.Millisecond

// sleepExactly sleeps, but for signals.
func sleepExactly(d time.Duration) {
	if d > 0 {
		t := syscall.NsecToTimespec(d.Nanoseconds())
		_ = syscall.Nanosleep(&t, nil)
	}
}
