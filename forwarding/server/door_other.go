//go:build !linux

package server

import "syscall"

// turnAway does nothing here.
func turnAway(syscall.Conn, bool) error { return nil }
