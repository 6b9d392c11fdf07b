//go:build !linux

package server

import "syscall"

// setRefuseNew does nothing here.
func setRefuseNew(syscall.Conn, bool) error { return nil }
