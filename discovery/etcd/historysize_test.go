package etcd

import (
	"fmt"
	"testing"
)

// The changes of the history have at most 8 MiB together, whatever their number, so that large ones do not fill the store.
func TestHistoryIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	const prefix = "/test/"
	f := func(want int, size int, sizes ...int) {
		t.Helper()
		var keys changeKeys
		for i, old := range sizes {
			suffix := fmt.Sprintf("-%d", old)
			if old < 0 {
				suffix = "" // of an earlier version
			}
			keys = append(keys, fmt.Sprintf("%shistory/changes/%020d-0123abcd%s", prefix, i, suffix))
		}
		got := 0
		for _, op := range keys.prune(prefix, size) {
			for got < len(keys) && keys[got] < string(op.RangeBytes()) {
				got++
			}
		}
		if got != want {
			t.Errorf("a change of %d bytes after %v: %d are deleted, want %d", size, sizes, got, want)
		}
	}
	const mib = 1 << 20
	f(0, mib)
	f(0, mib, mib, mib, mib, mib, mib, mib, mib)
	f(1, mib, mib, mib, mib, mib, mib, mib, mib, mib)
	f(1, 1, 7*mib, mib)
	f(2, 9*mib, mib, mib)
	f(0, mib, -1, -1, 7*mib)
	f(0, 1, make([]int, MaxHistory-1)...)
	f(1, 1, make([]int, MaxHistory)...)
	f(3, 1, make([]int, MaxHistory+2)...)
}
