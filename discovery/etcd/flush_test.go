package etcd

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"colonnade/internal/testkit"
)

// The file of the lease and that of the documents are flushed to the disk before they take their names, so that they are whole
// after a crash of the machine. A pipe in the place of the temporary file cannot be flushed.
func TestFilesAreFlushed(t *testing.T) {
	f := func(name string, save func(path string, log *slog.Logger), want string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), name)
		if err := syscall.Mkfifo(path+".tmp", 0o600); err != nil {
			t.Skipf("no named pipes here: %v", err)
		}
		read := make(chan []byte, 1)
		go func() {
			content, _ := os.ReadFile(path + ".tmp")
			read <- content
		}()
		var log testkit.SyncBuffer
		save(path, slog.New(slog.NewTextHandler(io.Writer(&log), nil)))
		if content := <-read; !bytes.Contains(content, []byte("servers/ams/a")) {
			t.Errorf("%s: written was %q", name, content)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) || strings.Count(log.String(), want) != 1 {
			t.Errorf("%s was saved without being flushed: %v, %s", name, err, log.String())
		}
	}
	f("lease.json", func(path string, log *slog.Logger) {
		NewLease(Registration{Prefix: "/", Key: "servers/ams/a", Logger: log, SavedLease: path}).saveLease(7)
	}, "cannot save the lease")
	f("fleet.json", func(path string, log *slog.Logger) {
		c := newCache(Config{Cache: path, Logger: log})
		c.unsaved = true
		c.close(func() snapshot { return snapshot{Documents: []cachedDocument{{Key: "servers/ams/a"}}} })
	}, "cannot save the last good documents")
}
