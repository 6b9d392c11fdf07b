package reload_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"colonnade/forwarding/reload"
	"colonnade/internal/testkit"
)

// tree makes a directory with one below it, "dir", and what a test puts into both, and returns the reader of dir.
func tree(t *testing.T) (above string, d *reload.Dir) {
	t.Helper()
	above = t.TempDir()
	d = &reload.Dir{Path: filepath.Join(above, "dir"), MaxSize: 16}
	if err := os.MkdirAll(filepath.Join(d.Path, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(above, "outside"), "outside")
	write(t, filepath.Join(d.Path, "key"), "key")
	write(t, filepath.Join(d.Path, "sub", "key"), "sub key")
	return above, d
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// expect reads a file, and wants either its content or an error that contains says.
func expect(t *testing.T, d *reload.Dir, name, content, says string) {
	t.Helper()
	got, err := d.Read(name)
	if string(got) != content || (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %q, %v; want %q, %q", name, got, err, content, says)
	}
}

func TestDirReadsOnlyBelowItsPath(t *testing.T) {
	above, d := tree(t)
	link(t, "../outside", filepath.Join(d.Path, "relative"))
	link(t, filepath.Join(above, "outside"), filepath.Join(d.Path, "absolute"))
	link(t, "..", filepath.Join(d.Path, "up"))
	link(t, "key", filepath.Join(d.Path, "inner"))
	expect(t, d, "key", "key", "")
	expect(t, d, "sub/key", "sub key", "")
	expect(t, d, "inner", "key", "")
	expect(t, d, filepath.Join(d.Path, "sub", "key"), "sub key", "")
	expect(t, d, d.Path+"//sub/../key", "key", "")
	for _, name := range []string{"../outside", "sub/../../outside", "relative", "absolute", "up/outside", "up/dir/key"} {
		expect(t, d, name, "", "escapes")
	}
	for _, name := range []string{filepath.Join(above, "outside"), "/etc/passwd", d.Path + "/../outside", d.Path, d.Path + "key"} {
		expect(t, d, name, "", "not below")
	}
	expect(t, d, "none", "", "no such file")
}

// Kubernetes mounts a secret as links to ..data, which is a link to a directory with a date that is replaced by another.
func TestDirFollowsAMountedSecret(t *testing.T) {
	_, d := tree(t)
	version := func(name, content string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(d.Path, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(d.Path, name, "vllm"), content)
		link(t, name, filepath.Join(d.Path, "..data_tmp"))
		if err := os.Rename(filepath.Join(d.Path, "..data_tmp"), filepath.Join(d.Path, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..2026_01_01", "old")
	link(t, "..data/vllm", filepath.Join(d.Path, "vllm"))
	expect(t, d, "vllm", "old", "")
	version("..2026_01_02", "new")
	expect(t, d, "vllm", "new", "")
}

// A directory that was replaced is the one that is read, as after an unmount and a mount.
func TestDirIsOpenedAnew(t *testing.T) {
	above, d := tree(t)
	if err := os.Rename(d.Path, filepath.Join(above, "before")); err != nil {
		t.Fatal(err)
	}
	expect(t, d, "key", "", "no such file")
	if err := os.Mkdir(d.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(d.Path, "key"), "mounted")
	expect(t, d, "key", "mounted", "")
}

func TestDirReadsOnlyRegularFilesOfBoundedSize(t *testing.T) {
	_, d := tree(t)
	if err := syscall.Mkfifo(filepath.Join(d.Path, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(d.Path, "full"), strings.Repeat("x", 16))
	write(t, filepath.Join(d.Path, "large"), strings.Repeat("x", 17))
	expect(t, d, "pipe", "", "not a regular file")
	expect(t, d, "sub", "", "not a regular file")
	expect(t, d, ".", "", "not a regular file")
	expect(t, d, "full", strings.Repeat("x", 16), "")
	expect(t, d, "large", "", "larger than 16 bytes")
	testkit.NeedsLinux(t, "has files that are larger than their size says")
	expect(t, &reload.Dir{Path: "/proc/self", MaxSize: 16}, "status", "", "larger than 16 bytes") // its size says 0
}

// A file of the node itself is not read, whether it is named by its own path, by a link or by a second name.
func TestDirReadsNoFileOfTheNode(t *testing.T) {
	above, d := tree(t)
	own := filepath.Join(d.Path, "fleet.key")
	write(t, own, "secret")
	link(t, "fleet.key", filepath.Join(d.Path, "link"))
	if err := os.Link(own, filepath.Join(d.Path, "hard")); err != nil {
		t.Fatal(err)
	}
	link(t, own, filepath.Join(above, "fleet.key"))
	d.Never = []string{filepath.Join(above, "none"), filepath.Join(above, "fleet.key")}
	for _, name := range []string{"fleet.key", "link", "hard", own} {
		expect(t, d, name, "", "file of this node")
	}
	expect(t, d, "key", "key", "")
}
