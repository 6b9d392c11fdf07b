package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// A process knows which earlier ones of its node have ended, without end but bounded; and it starts although its file cannot be written.
func TestRememberBoot(t *testing.T) {
	t.Parallel()
	c := &Config{Node: "ams-1", Logger: slog.New(slog.DiscardHandler)}
	if ended := c.rememberBoot("a"); ended != nil {
		t.Errorf("without a directory: %v", ended)
	}
	c.DataDir = t.TempDir()
	for i := range 2 * maxBoots {
		ended := c.rememberBoot(strconv.Itoa(i))
		if len(ended) != min(i, maxBoots) || i > 0 && ended[len(ended)-1] != strconv.Itoa(i-1) {
			t.Fatalf("before process %d: %v", i, ended)
		}
	}
	if other := (&Config{Node: "ams-2", DataDir: c.DataDir, Logger: c.Logger}); len(other.rememberBoot("a")) > 0 {
		t.Error("processes of another node have ended")
	}
	path := c.file("boots")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ended := c.rememberBoot("b"); len(ended) > 0 {
		t.Errorf("of a damaged file: %v", ended)
	}
	if ended := c.rememberBoot("c"); !slices.Equal(ended, []string{"b"}) {
		t.Errorf("after a damaged file: %v", ended)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if ended := c.rememberBoot("d"); len(ended) > 0 {
		t.Errorf("of a file that cannot be written: %v", ended)
	}
}
