//go:build !linux

package journal_test

import "testing"

// smallDisk skips the test.
func smallDisk(t *testing.T, _ int) string {
	t.Helper()
	t.Skip("only Linux mounts a small file system in memory")
	return ""
}
