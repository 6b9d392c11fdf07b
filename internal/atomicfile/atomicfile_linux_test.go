package atomicfile_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"colonnade/internal/atomicfile"
)

// The directory is opened, to be flushed, after the file has taken the name.
func TestDirectoryIsFlushedLast(t *testing.T) {
	dir := t.TempDir()
	notify, err := unix.InotifyInit1(unix.IN_NONBLOCK)
	if err != nil {
		t.Skipf("no inotify here: %v", err)
	}
	defer unix.Close(notify)
	if _, err := unix.InotifyAddWatch(notify, dir, unix.IN_MOVED_TO|unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(filepath.Join(dir, "file"), []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 4096)
	n, err := unix.Read(notify, buffer)
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for rest := buffer[:n]; len(rest) > 0; {
		event := (*unix.InotifyEvent)(unsafe.Pointer(&rest[0]))
		name := string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+event.Len], "\x00"))
		switch {
		case event.Mask&unix.IN_MOVED_TO != 0:
			seen = append(seen, "named "+name)
		case event.Mask&unix.IN_ISDIR != 0:
			seen = append(seen, "directory opened")
		}
		rest = rest[unix.SizeofInotifyEvent+event.Len:]
	}
	if !slices.Equal(seen, []string{"named file", "directory opened"}) {
		t.Errorf("seen %q", seen)
	}
}
