// Package nvmltest has a library in place of NVIDIA's NVML, compiled from C, and colonnade-gpus, which loads it. So tests see what happens
// with drivers and GPUs that this machine does not have: Xids, errors of memory, GPUs that are lost, calls that never return.
package nvmltest

import (
	"crypto/sha256"
	_ "embed" // the sources
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"colonnade/internal/testkit"
)

//go:embed testdata/nvml.c
var source []byte

// H200 is a machine with one H200; A100MIG has two A100, of which one is divided into two MIG instances. The last two were recorded from GPUs:
// two A5000 with an engine, and an A100 that is divided into four MIG instances.
var (
	//go:embed testdata/h200.txt
	H200 string
	//go:embed testdata/a100-mig.txt
	A100MIG string
	//go:embed testdata/a5000-recorded.txt
	RecordedA5000 string
	//go:embed testdata/a100-recorded.txt
	RecordedA100 string
)

// UUIDs of these machines.
const (
	H200GPU   = "GPU-6f1c3a52-9d1e-4b7e-8f0a-2c5d7e9b1a34"
	A100First = "GPU-0b2ef1d4-58f1-4d0c-9a56-7d3a1c0e4b11" // divided
	A100Other = "GPU-4c9d8e7f-1a2b-4c3d-8e4f-5a6b7c8d9e0f"
	A100Part1 = "MIG-11111111-58f1-5d0c-9a56-7d3a1c0e4b11"
	A100Part2 = "MIG-22222222-58f1-5d0c-9a56-7d3a1c0e4b11"
)

// Library returns the path of the library. Without a C compiler, the test is skipped.
func Library(t testing.TB) string { return compile(t) }

// OldLibrary returns that of a library which lacks what drivers before 2018 lack: MIG, remapped rows, fields, events by instance.
func OldLibrary(t testing.TB) string { return compile(t, "-DOLD_DRIVER") }

// Program returns the path of colonnade-gpus with NVML. Without a C compiler, the test is skipped.
func Program(t testing.TB) string {
	t.Helper()
	needCompiler(t)
	return testkit.GPUProgram(t)
}

// needCompiler skips the test without a C compiler, and returns its command.
func needCompiler(t testing.TB) []string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOOS", "CC").Output()
	lines := strings.Fields(string(out))
	if err != nil || len(lines) < 2 {
		t.Skip("the go command is not in the PATH, so the program cannot be built")
	}
	if lines[0] != "linux" {
		t.Skip("NVML is for Linux")
	}
	if _, err := exec.LookPath(lines[1]); err != nil {
		t.Skipf("needs the C compiler %s (Debian: apt-get install gcc libc6-dev)", lines[1])
	}
	return lines[1:]
}

// compile compiles the library into a directory that tests share, unless it is there.
func compile(t testing.TB, flags ...string) string {
	t.Helper()
	compiler := needCompiler(t)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "colonnade-test", "nvml")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256([]byte(string(source) + strings.Join(flags, " ")))
	path := filepath.Join(dir, fmt.Sprintf("%x.so", hash[:8]))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	work := t.TempDir()
	file, built := filepath.Join(work, "nvml.c"), filepath.Join(work, "nvml.so")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		t.Fatal(err)
	}
	args := append(compiler[1:], append(flags, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", built, file, "-lpthread")...)
	if out, err := exec.Command(compiler[0], args...).CombinedOutput(); err != nil {
		t.Fatalf("the library does not compile: %v\n%s", err, out)
	}
	text, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, path, text)
	return path
}

// Machine is what the library answers, in the test and in the processes that it starts.
type Machine struct {
	t    testing.TB
	path string
	text string
}

// NewMachine sets the machine that the library answers for, until the test ends. A test that has one cannot be parallel.
func NewMachine(t testing.TB, text string) *Machine {
	t.Helper()
	m := &Machine{t: t, path: filepath.Join(t.TempDir(), "machine.txt"), text: text}
	replace(t, m.path, []byte(text))
	t.Setenv("FAKE_NVML", m.path)
	return m
}

// Set adds lines, or replaces those that begin with the same words but the last.
func (m *Machine) Set(lines ...string) {
	m.t.Helper()
	for _, line := range lines {
		m.remove(line[:strings.LastIndexByte(line, ' ')+1])
		m.text += line + "\n"
	}
	replace(m.t, m.path, []byte(m.text))
}

// Add adds lines.
func (m *Machine) Add(lines ...string) {
	m.t.Helper()
	m.text += strings.Join(lines, "\n") + "\n"
	replace(m.t, m.path, []byte(m.text))
}

// Remove removes the lines that begin so.
func (m *Machine) Remove(beginning string) {
	m.t.Helper()
	m.remove(beginning)
	replace(m.t, m.path, []byte(m.text))
}

func (m *Machine) remove(beginning string) {
	var kept strings.Builder
	for line := range strings.Lines(m.text) {
		if !strings.HasPrefix(line, beginning) {
			kept.WriteString(line)
		}
	}
	m.text = kept.String()
}

// replace replaces a file as a whole, since others may read it.
func replace(t testing.TB, path string, text []byte) {
	t.Helper()
	next := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(next, text, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}
