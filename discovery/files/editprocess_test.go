package files

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"colonnade/internal/testkit"
)

// TestEditProcess is no test: it is the process that the tests below start. It creates keys, and writes the number of each when it is there.
func TestEditProcess(t *testing.T) {
	path := os.Getenv("TEST_EDIT_PATH")
	if path == "" {
		t.Skip("runs in a process of its own")
	}
	var first, count int
	if _, err := fmt.Sscan(os.Getenv("TEST_EDIT_KEYS"), &first, &count); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		if _, err := Create(t.Context(), path, apiKey(first+i)); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("created %d\n", first+i)
	}
}

// startEdits starts a process that creates keys.
func startEdits(t *testing.T, path string, first, count int) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	var out strings.Builder
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEditProcess$")
	cmd.Env = append(os.Environ(), "TEST_EDIT_PATH="+path, fmt.Sprintf("TEST_EDIT_KEYS=%d %d", first, count))
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &out
}

// Processes that change files at the same time lose no change of each other.
func TestEditsOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all []*exec.Cmd
	for i := range 3 {
		cmd, _ := startEdits(t, dir, 100*(i+1), 15)
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Count(keysAt(t, dir), "keys/"); got != 45 {
		t.Errorf("%d of 45 keys are there", got)
	}
}

// A process that is killed leaves the old file or the new one, and no lock.
func TestEditSurvivesKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := writeFile(t, dir, "keys.yaml", "# ours\n")
	for round := range 8 {
		count := func() int { return strings.Count(readFile(t, path), "\nkey: ") }
		before := count()
		cmd, out := startEdits(t, dir, 1000*(round+1), 900)
		testkit.WaitFor(t, "a first key", func() bool { return count() > before })
		time.Sleep(time.Duration(round) * 300 * time.Microsecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		keys := keysAt(t, dir) // all can be read
		for line := range strings.Lines(out.String()) {
			var n int
			if _, err := fmt.Sscanf(line, "created %d", &n); err == nil && !strings.Contains(keys, apiKey(n).Key) {
				t.Errorf("round %d: key %d was created, and is gone", round, n)
			}
		}
	}
	if _, err := Create(t.Context(), dir, raw("pools/a", "{}")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".keys.yaml"+tempSuffix), []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(t.Context(), dir, apiKey(1)); err != nil || namesIn(t, dir) != "keys.yaml pools.yaml" || modeOf(t, path) != 0o600 {
		t.Errorf("%v; there are %s, %v", err, namesIn(t, dir), modeOf(t, path))
	}
}
