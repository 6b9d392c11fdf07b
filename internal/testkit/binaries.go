package testkit

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// GORACE is the environment variable with the race detector's options.
const GORACE = "GORACE"

// Binary returns the path of entry, colo or colonnade is, built with the race detector if the test has it. Without a go command,
// the test is skipped. A package that starts a binary imports onebox, and so all packages that the binaries are built from:
// when one of them changes, no cached test result is used.
func Binary(t testing.TB, name string) (path string) {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not in the PATH, so the binaries cannot be built")
	}
	dir, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// EtcdProgram returns the path of etcd as a program for package etcdtest, built without the race detector. Without a go command,
// the test is skipped.
func EtcdProgram(t testing.TB) (path string) {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not in the PATH, so etcd cannot be built")
	}
	dir, err := etcdProgram()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "etcd")
}

// GPUProgram returns the path of colonnade-gpus, built with cgo and without the race detector. The test needs a go command and a C compiler.
func GPUProgram(t testing.TB) (path string) {
	t.Helper()
	dir, err := gpuProgram()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "colonnade-gpus")
}

var (
	binaries    = sync.OnceValues(buildBinaries)
	etcdProgram = sync.OnceValues(func() (string, error) {
		root, err := moduleRoot()
		if err != nil {
			return "", err
		}
		return link(root, "etcd", "./internal/etcdtest/etcd")
	})
	gpuProgram = sync.OnceValues(func() (string, error) {
		root, err := moduleRoot()
		if err != nil {
			return "", err
		}
		if err := readMains(root); err != nil {
			return "", err
		}
		return linkWith(root, "gpus", []string{"CGO_ENABLED=1"}, "-ldflags=-s -w -extldflags=-Wl,-z,lazy", "./cmd/colonnade-gpus")
	})
)

func buildBinaries() (dir string, err error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if err := readMains(root); err != nil {
		return "", err
	}
	race := fmt.Sprint(raceEnabled)
	if dir, err = link(root, race, "-race="+race, "./cmd/entry", "./cmd/colo", "./cmd/colonnade"); err != nil {
		return "", err
	}
	if os.Getenv(GORACE) == "" {
		err = os.Setenv(GORACE, "atexit_sleep_ms=10") // the default delays the end of each process by a second
	}
	return dir, err
}

// moduleRoot returns the directory of the module of the commands, also for a test of another module.
func moduleRoot() (string, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "colonnade").Output()
	if err != nil {
		return "", fmt.Errorf("cannot find the module: %w", err)
	}
	return strings.TrimSpace(string(dir)), nil
}

// link links programs into a directory for that purpose, which the tests of a checkout share, so that they are linked once for
// several packages, and only after a change.
func link(root, purpose string, args ...string) (dir string, err error) {
	return linkWith(root, purpose, nil, args...)
}

// linkWith does so with variables of the environment.
func linkWith(root, purpose string, env []string, args ...string) (dir string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cannot find a place for the binaries: %w", err)
	}
	dir = filepath.Join(cache, "colonnade-test", fmt.Sprintf("%x", sha256.Sum256([]byte(root+purpose)))[:16])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// A second process waits, and finds the binaries built.
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("cannot lock %s: %w", dir, err)
	}
	cmd := exec.Command("go", append([]string{"build", "-ldflags=-s -w", "-o", dir + "/"}, args...)...) // without what debuggers need
	cmd.Dir = root
	cmd.Env = append(append(os.Environ(), env...), "GOTMPDIR="+dir) // on the same file system: a new binary is renamed over one that may be running
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build: %w\n%s", err, out)
	}
	return dir, nil
}

// readMains reads the sources of the commands, which no test imports: the go command checks files that a test has read
// before it uses a cached result.
func readMains(root string) error {
	for _, pattern := range []string{"cmd/*/*.go", "cmd/internal/*/*.go", "worker/gpu/nvml/*.go"} {
		sources, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		for _, name := range sources {
			if _, err := os.ReadFile(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Race reports whether the test runs with the race detector.
func Race() bool { return raceEnabled }
