//go:build !linux

package atomicfile_test

import "testing"

func TestDirectoryIsFlushedLast(t *testing.T) {
	t.Skip("only Linux has inotify, which shows the order of the steps")
}
