//go:build !linux

package forwarding

import "syscall"

// turnAway does nothing here.
func turnAway(syscall.Conn, bool) error { return nil }
