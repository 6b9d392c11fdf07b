package node

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/internal/testkit"
)

// line returns a line of a key file.
func line(key byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{key}, hop.KeySize)) + "\n"
}

// The keys in force are those of the last good file. The state says why a later one is not in force, the log says so once, and neither has
// a key.
func TestKeyFileIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "fleet.key")
		write := func(text string, mode os.FileMode) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, mode); err != nil { // a file that exists keeps its mode
				t.Fatal(err)
			}
		}
		write(line(1), 0o600)
		keys, err := hop.ReadKeys(path)
		if err != nil {
			t.Fatal(err)
		}
		var log testkit.SyncBuffer
		seen := 0 // bytes of the log
		f, err := openFleetKeys(&Config{Keys: keys, KeyFile: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		var replaced atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = f.run(ctx, func() { replaced.Add(1) }) }()
		step := func(keys, problem, logged string, times int32) {
			t.Helper()
			replaced.Store(0)
			for range 3 {
				time.Sleep(2 * time.Second)
				synctest.Wait()
				s := f.state()
				if got := strings.Join(s.Accepts, " "); got != keys || !strings.HasPrefix(got, s.Signs) {
					t.Errorf("signs %s, accepts %s, want %s", s.Signs, got, keys)
				}
				if !strings.Contains(s.Problem, problem) || (s.Problem == "") != (problem == "") {
					t.Errorf("problem %q, want %q", s.Problem, problem)
				}
			}
			text := log.String()[seen:]
			seen += len(text)
			if replaced.Load() != times || strings.Count(text, logged) != 1 && logged != "" || logged == "" && text != "" {
				t.Errorf("replaced %d times, log:\n%s", replaced.Load(), text)
			}
			for key := range byte(4) {
				if strings.Contains(text, line(key)[:10]) {
					t.Error("a key is in the log")
				}
			}
		}
		id := func(key byte) string {
			k, err := hop.NewKeys(bytes.Repeat([]byte{key}, hop.KeySize))
			if err != nil {
				t.Fatal(err)
			}
			return k.IDs()[0]
		}
		const reported = "cannot reload files"
		step(id(1), "", "", 0)
		write(line(1)+line(2), 0o600)
		step(id(1)+" "+id(2), "", "level=INFO msg=\"fleet keys replaced\"", 1)
		write("", 0o600)
		step(id(1)+" "+id(2), "no fleet key", reported, 0)
		write(line(3), 0o644)
		step(id(1)+" "+id(2), "others can read it", reported, 0)
		write(line(3)+line(2)[:20], 0o600)
		step(id(1)+" "+id(2), "line 2: not base64", reported, 0)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		step(id(1)+" "+id(2), "no such file", reported, 0)
		write(line(2)+line(1), 0o600)
		step(id(2)+" "+id(1), "", "level=INFO msg=\"fleet keys replaced\"", 1)
		write(line(3), 0o600)
		step(id(3), "", "level=WARN msg=\"fleet keys replaced\"", 1)
	})
}
