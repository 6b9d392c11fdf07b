package files

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// A directory in which no file can be made is an error that says what to do. The file system sees another user than root, who may write everywhere.
func TestEditOfAReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := writeFile(t, dir, "a.yaml", "key: pools/a\n")
	for name, mode := range map[string]os.FileMode{path: 0o644, dir: 0o555, filepath.Dir(dir): 0o755} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and with it the other user
		if os.Geteuid() == 0 {
			if err := syscall.Setfsuid(65534); err != nil {
				t.Error(err)
			}
		}
		_, err := Create(t.Context(), dir, raw("pools/b", "{}"))
		failed <- err
	}()
	err := <-failed
	for _, want := range []string{"nothing was changed", path, "the directory " + dir + " cannot be written (permission denied)", "ConfigMap"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	if readFile(t, path) != "key: pools/a\n" || namesIn(t, dir) != "a.yaml" {
		t.Errorf("there are %s; the file is %s", namesIn(t, dir), readFile(t, path))
	}
}

// The process that reads the files may run as another user than the operator.
func TestEditKeepsTheOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	ids := func(file string) (uid, gid uint32) {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		owner := info.Sys().(*syscall.Stat_t)
		return owner.Uid, owner.Gid
	}
	path := writeFile(t, dir, "pools.yaml", "key: pools/a\n")
	if err := os.Chown(path, 1234, 5678); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(t.Context(), dir, raw("pools/b", "{}")); err != nil {
		t.Fatal(err)
	}
	if uid, gid := ids(path); uid != 1234 || gid != 5678 {
		t.Errorf("the file belongs to %d, %d", uid, gid)
	}
	f := func(uid, gid int, dirMode, want os.FileMode) {
		t.Helper()
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, dirMode); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(filepath.Join(dir, "keys.yaml"))
		at, err := Create(t.Context(), dir, apiKey(1))
		if err != nil {
			t.Fatal(err)
		}
		if u, g := ids(at.File); u != uint32(uid) || g != uint32(gid) || modeOf(t, at.File) != want {
			t.Errorf("directory of %d, %d with the mode %v: the new file belongs to %d, %d, %v", uid, gid, dirMode, u, g, modeOf(t, at.File))
		}
		if _, err := Read(dir); err != nil {
			t.Errorf("it cannot be read: %v", err)
		}
	}
	f(1234, 5678, 0o700, 0o600)
	f(1234, 5678, 0o750, 0o600)
	f(0, 5678, 0o750, 0o640) // of root, readable for the group of the service
	f(0, 5678, 0o700, 0o600)
	f(0, 0, 0o755, 0o600)
}

// A process takes API keys from files of its own user and of root, and no other; files without keys may be of any user.
func TestForeignOwner(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		owner, user int
		want        bool
	}{{0, 0, true}, {0, 1000, true}, {1000, 1000, true}, {1000, 0, false}, {1000, 1001, false}} {
		if isTrusted(c.owner, c.user) != c.want {
			t.Errorf("a file of user %d, a process of user %d: %v", c.owner, c.user, !c.want)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	give := func(name, text string) {
		t.Helper()
		if err := os.Chown(writeFile(t, dir, name, text), 1234, 1234); err != nil {
			t.Fatal(err)
		}
	}
	give("pools.yaml", "key: pools/a\n")
	if c := readAll(dir); len(c.problems) > 0 {
		t.Errorf("a file without keys: %v", c.problems)
	}
	give("keys.yaml", "key: keys/k\naccount: a\nsha256: '"+strings.Repeat("a", 64)+"'\n")
	if err := os.Chmod(filepath.Join(dir, "keys.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "keys.yaml: has API keys, and belongs to user 1234, neither root nor the user 0 of this process: chown 0 "
	if c := readAll(dir); len(c.problems) != 1 || !strings.Contains(c.problems[0].Error(), want) {
		t.Errorf("a file with keys of another user: %v", c.problems)
	}
}
