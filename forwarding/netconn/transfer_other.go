//go:build !linux || portable || race

package netconn

import "syscall"

// The race detector knows of these calls that a byte is read after it was written.

// readNow reads what a socket that does not block has.
func readNow(fd int, p []byte) (int, error) { return syscall.Read(fd, p) }

// writeNow writes what a socket that does not block takes.
func writeNow(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }
