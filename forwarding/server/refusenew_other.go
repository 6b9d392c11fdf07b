//go:build !linux || portable

package server

import "syscall"

// setRefuseNew has no effect on this system.
func setRefuseNew(syscall.Conn, bool) error { return nil }
