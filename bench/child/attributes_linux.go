package child

import "syscall"

// attributes puts a child process into a process group of its own, so that a terminal's Ctrl-C does not reach it before
// this process has ended it, and has the kernel kill it if this process is killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
