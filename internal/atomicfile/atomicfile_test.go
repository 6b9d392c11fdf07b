package atomicfile_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"colonnade/internal/atomicfile"
)

func TestWriteReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	long := strings.Repeat("long ", 1000)
	for _, content := range []string{"first", long, "", "last"} {
		if err := atomicfile.Write(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%v: %d bytes, want %d", err, len(got), len(content))
		}
	}
	// A temporary file that a crash has left behind is taken over.
	if err := os.WriteFile(path+".tmp", []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "short" {
		t.Errorf("got %q", got)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}

func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	if err := atomicfile.Write(filepath.Join(dir, "nowhere", "file"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into a directory that is not there: %v", err)
	}
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(taken, nil, 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}

// The content is flushed before the file takes the name. A pipe stands in for the temporary file: it can be written, and
// not be flushed.
func TestContentIsFlushedFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := atomicfile.Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path+".tmp", 0o600); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	read := make(chan []byte)
	go func() {
		pipe, err := os.Open(path + ".tmp")
		if err != nil {
			t.Error(err)
			close(read)
			return
		}
		defer pipe.Close()
		content, _ := io.ReadAll(pipe)
		read <- content
	}()
	if err := atomicfile.Write(path, []byte("new"), 0o600); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("the content cannot be flushed, and the error is %v", err)
	}
	if got := <-read; string(got) != "new" {
		t.Errorf("written was %q", got)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("the file is %q", got)
	}
}
