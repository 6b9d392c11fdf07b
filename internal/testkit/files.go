package testkit

import (
	"os"
	"syscall"
	"testing"
)

// LimitFiles lets the process open n more files and sockets, until restore is called or the test ends. It skips the test where
// the limit cannot be lowered.
func LimitFiles(t testing.TB, n uint64) (restore func()) {
	t.Helper()
	lowest, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(lowest.Fd())
	lowest.Close()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	small := old
	small.Cur = next + n
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &small); err != nil {
		t.Skipf("the limit of open files cannot be lowered here: %v", err)
	}
	restore = func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) }
	t.Cleanup(restore)
	return restore
}
