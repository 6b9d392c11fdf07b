package deploy_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v2"

	"colonnade/internal/testkit"
)

// releaseConfig is the part of .goreleaser.yaml that these tests check.
type releaseConfig struct {
	Builds []struct {
		ID, Main, Binary                  string
		Env, Flags, Ldflags, Goos, Goarch []string
		Timestamp                         string `yaml:"mod_timestamp"`
	}
	Archives []struct {
		Programs fileInfo `yaml:"builds_info"`
		Files    []struct {
			Src  string
			Info fileInfo
		}
	}
}

type fileInfo struct{ Owner, Group, Mtime string }

func readReleaseConfig(t *testing.T) (c releaseConfig) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text(t, "../.goreleaser.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// A release has the programs of the image, for Linux and macOS on both architectures, built the same way, without what differs between
// two builds of one commit.
func TestReleaseConfig(t *testing.T) {
	c := readReleaseConfig(t)
	var programs []string
	for _, b := range c.Builds {
		programs = append(programs, b.Binary)
		if b.Main != "./cmd/"+b.Binary || b.ID != b.Binary {
			t.Errorf("%s is the program %s of %s", b.ID, b.Binary, b.Main)
		}
		if !slices.Equal(b.Goos, []string{"linux", "darwin"}) || !slices.Equal(b.Goarch, []string{"amd64", "arm64"}) {
			t.Errorf("%s is for %v on %v", b.ID, b.Goos, b.Goarch)
		}
		flags := strings.Join(append(slices.Clone(b.Env), append(b.Flags, b.Ldflags...)...), " ")
		if flags != "CGO_ENABLED=0 -trimpath -s -w" || b.Timestamp != "{{ .CommitTimestamp }}" {
			t.Errorf("%s is built with %s, and has the time %s", b.ID, flags, b.Timestamp)
		}
	}
	slices.Sort(programs)
	var installed []string
	for _, m := range regexp.MustCompile(`\./cmd/(\w+)`).FindAllStringSubmatch(text(t, "Dockerfile"), -1) {
		installed = append(installed, m[1])
	}
	slices.Sort(installed)
	if !slices.Equal(programs, installed) {
		t.Errorf("archives have %q, the image has %q", programs, installed)
	}
	fixed := fileInfo{"root", "root", "{{ .CommitDate }}"}
	for _, a := range c.Archives {
		if a.Programs != fixed {
			t.Errorf("programs in archives belong to %+v", a.Programs)
		}
		for _, f := range a.Files {
			if found, _ := filepath.Glob(filepath.Join("..", f.Src)); len(found) == 0 || f.Info != fixed {
				t.Errorf("archives have %s (%d files), which belong to %+v", f.Src, len(found), f.Info)
			}
		}
	}
}

// target is a system and an architecture.
type target struct{ system, architecture string }

// build builds programs of the module in dir, and returns the hash of each.
func (to target) build(t *testing.T, dir string, mains []string) map[string]string {
	t.Helper()
	out, hashes := t.TempDir(), map[string]string{}
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out + "/"}, mains...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOOS="+to.system, "GOARCH="+to.architecture, "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("for %s/%s: %v\n%s", to.system, to.architecture, err, text)
	}
	for _, main := range mains {
		program, err := os.ReadFile(filepath.Join(out, filepath.Base(main)))
		if err != nil {
			t.Fatal(err)
		}
		hashes[main] = fmt.Sprintf("%x", sha256.Sum256(program))
	}
	return hashes
}

// All programs of a release build for all of its systems.
func TestReleaseBuilds(t *testing.T) {
	if !testkit.Soak() {
		t.Skip("building twelve programs takes minutes: set COLONNADE_SOAK")
	}
	for to, programs := range releasePrograms(t) {
		to.build(t, "..", programs)
	}
}

// The programs of a release are the same bytes whichever directory they are built in.
func TestReleaseIsReproducible(t *testing.T) {
	if !testkit.Soak() {
		t.Skip("building six programs takes minutes: set COLONNADE_SOAK")
	}
	to := target{"linux", "amd64"}
	programs := releasePrograms(t)[to]
	if here, there := to.build(t, "..", programs), to.build(t, copyOfSources(t), programs); !maps.Equal(here, there) || len(here) == 0 {
		t.Errorf("for %v, the programs have other bytes when they are built in another directory", to)
	}
}

// releasePrograms returns the packages of a release's programs, by what they are built for.
func releasePrograms(t *testing.T) map[target][]string {
	t.Helper()
	mains := map[target][]string{}
	for _, b := range readReleaseConfig(t).Builds {
		for _, system := range b.Goos {
			for _, architecture := range b.Goarch {
				to := target{system, architecture}
				mains[to] = append(mains[to], b.Main)
			}
		}
	}
	return mains
}

// copyOfSources copies the files of the module to another directory.
func copyOfSources(t *testing.T) string {
	t.Helper()
	names, err := exec.Command("git", "-C", "..", "ls-files", "--", "*.go", "go.mod", "go.sum", "*.tmpl", "*.json", "*.html", "*.css", "*.js", "*.lua").Output()
	if err != nil {
		t.Skipf("the sources are not in a git repository: %v", err)
	}
	dir := t.TempDir()
	for name := range strings.Lines(string(names)) {
		name = strings.TrimSpace(name)
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(text(t, filepath.Join("..", name))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A release has colonnade-gpus if there is a C compiler. It starts without the library of a driver, whatever that compiler binds by itself.
func TestReleaseOfGPUProgram(t *testing.T) {
	build := func(env ...string) (dir, said string) {
		t.Helper()
		dir = t.TempDir()
		cmd := exec.Command("../tools/build-gpus", dir)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return dir, string(out)
	}
	dir, said := build("CC=no-such-compiler")
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 || !strings.Contains(said, "colonnade-gpus is left out") {
		t.Errorf("without a C compiler: %q\n%s", left, said)
	}
	if _, err := exec.LookPath("cc"); err != nil || runtime.GOOS != "linux" {
		t.Skip("needs Linux and a C compiler")
	}
	dir, said = build("CGO_LDFLAGS=-Wl,-z,now")
	out, err := exec.Command(filepath.Join(dir, "colonnade-gpus_linux_"+runtime.GOARCH), "-once", "-library", "/none.so").CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "colonnade-gpus: no driver of NVIDIA") {
		t.Errorf("%v\n%s%s", err, said, out)
	}
	for _, where := range []string{"checksum:", "release:"} {
		_, after, _ := strings.Cut(text(t, "../.goreleaser.yaml"), "\n"+where)
		section, _, _ := strings.Cut(after, "\n\n")
		if !strings.Contains(section, "colonnade-gpus_*") {
			t.Errorf("%s lacks colonnade-gpus", where)
		}
	}
}
