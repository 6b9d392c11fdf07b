package netconn

import (
	"errors"
	"syscall"
)

// IsShortage reports whether err is a lack of resources that may pass, so that the next accept may succeed.
func IsShortage(err error) bool {
	for _, passing := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// IsLocalShortage says that a connection could not be made for want of something of this machine's own, such as files: that says
// nothing of whoever was to be reached.
func IsLocalShortage(err error) bool { return IsShortage(err) && !errors.Is(err, syscall.ECONNABORTED) }
