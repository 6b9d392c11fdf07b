package netconn

import (
	"errors"
	"net"
	"syscall"
)

// IsTimeout reports whether err is a deadline that has passed.
func IsTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// IsShortage reports whether err is a temporary lack of resources, or another condition after which the next accept may succeed.
func IsShortage(err error) bool {
	for _, temporary := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, temporary) {
			return true
		}
	}
	return false
}

// IsLocalShortage reports whether a connection failed because this machine lacks a resource, such as file descriptors. Such an
// error says nothing about the other side.
func IsLocalShortage(err error) bool { return IsShortage(err) && !errors.Is(err, syscall.ECONNABORTED) }

// IsRefused reports whether the other side has refused or reset the connection: no server listens there, or it is going away.
func IsRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
