package light_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A disk that is full leaves the file as it was, and once there is room, the same batch arrives as a whole.
func TestFileOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path, ballast := filepath.Join(dir, "e.jsonl"), filepath.Join(dir, "ballast")
	s := open(t, "file:"+path)
	send(t, s, batch("a"))
	if err := os.WriteFile(ballast, make([]byte, 40<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	large := batch("b", strings.Repeat("x", 30<<10))
	if err := s.Send(t.Context(), large); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Fatalf("a batch for which there is no room: %v", err)
	}
	wantFile(t, path, a)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	send(t, s, large)
	wantFile(t, path, a+string(large.NDJSON()))
	_ = s.Close()
}
