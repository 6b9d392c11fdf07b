//go:build !linux

package child

import "syscall"

// attributes puts a child process into a process group of its own, so that a terminal's Ctrl-C does not reach it before
// this process has ended it. If this process is killed, the child stays: this kernel does not end it.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
