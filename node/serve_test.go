package node_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/colo"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// serveAndStop runs a process for one colo until it serves, stops it, and returns how long the start took, and whether it has lingered.
func serveAndStop(t *testing.T, c node.ServeConfig) (took time.Duration, lingered bool) {
	t.Helper()
	var log testkit.SyncBuffer
	c.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(&log, t.Output()), nil))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := time.Now()
	if err := node.RunServe(ctx, c, func(node.Running) { took = time.Since(began); cancel() }); err != nil {
		t.Fatal(err)
	}
	return took, strings.Contains(log.String(), "waiting until engines have noticed the end of the earlier process")
}

// A URL that no engine may have is refused before anything is opened, and is not shown with what may be its password.
func TestServeRefusesURLsFirst(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "ftp://127.0.0.1", "http://user:secret@127.0.0.1:1", "http://127.0.0.1:1?key=secret"} {
		data := filepath.Join(t.TempDir(), "data")
		err := node.RunServe(t.Context(), node.ServeConfig{Engines: []string{"http://127.0.0.1:1", url}, Open: true, Config: node.Config{
			Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", DataDir: data, Drain: time.Second, Logger: slog.New(slog.DiscardHandler),
		}}, func(node.Running) {})
		if err == nil || !strings.Contains(err.Error(), "cannot use the URL of an engine") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
		if _, err := os.Stat(data); err == nil {
			t.Errorf("%q: the data directory was opened", url)
		}
	}
}

// A process that finds requests of an earlier one without an end waits before it serves, since engines may still have them. The next one, which
// finds none, does not.
func TestServeAfterKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	documents := filepath.Join(dir, "documents.yaml")
	if err := os.WriteFile(documents, []byte("key: models/m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := node.ServeConfig{Documents: documents, Open: true, Config: node.Config{
		Node: "local-1", Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", DataDir: filepath.Join(dir, "data"), Drain: time.Second,
	}}
	serveAndStop(t, c)
	log, err := journal.Open(journal.Config{Dir: c.DataDir, Node: c.Node})
	if err != nil {
		t.Fatal(err)
	}
	log.Append(&analytics.Event{EventID: "e", RequestID: "r", Kind: analytics.KindInference, Phase: analytics.PhaseBegin, Model: "m", Account: "a"})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if took, lingered := serveAndStop(t, c); took < colo.Linger || !lingered {
		t.Errorf("after a kill, it serves after %v, when engines may not have noticed yet that the earlier process has ended", took)
	}
	if _, lingered := serveAndStop(t, c); lingered {
		t.Error("it waits although every request has an end")
	}
}
