//go:build !linux || portable

package netconn

import "syscall"

// writeNow writes what a socket that does not block takes.
func writeNow(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }
