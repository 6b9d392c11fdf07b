package files_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"colonnade/discovery/files"
	"colonnade/fleet/document"
)

func (f folder) pipe(name string) {
	f.t.Helper()
	f.check(syscall.Mkfifo(f.file(name), 0o600))
}

// Read returns the documents of a directory in the order of its files, with their places.
func TestRead(t *testing.T) {
	dir := start(t, "b.yml", "\n# why\n\nkey: pools/x\nqueue: {limit: 1}\n---\n"+model("m", 1), "a.json", `{"key": "pools/a"}`,
		".hidden.yaml", "bad", "notes.txt", "bad")
	dir.check(os.Mkdir(dir.file("below.yaml"), 0o700))
	docs, err := files.Read(dir.path)
	dir.check(err)
	var got []string
	for _, d := range docs {
		name, _ := filepath.Rel(dir.path, d.File)
		got = append(got, fmt.Sprintf("%s:%d %s %q", name, d.Line, d.Key, d.Value))
	}
	want := []string{`a.json:1 pools/a "{}"`, `b.yml:4 pools/x "# why\n\nqueue: {limit: 1}\n"`, `b.yml:7 models/m "retry:\n  errors: 1\n"`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %s", strings.Join(got, "\n"))
	}
	one, err := files.Read(dir.file("b.yml"))
	if err != nil || len(one) != 2 || one[0].File != dir.file("b.yml") {
		t.Errorf("%v, %v", one, err)
	}
}

// A large file of something else is not checked to its end: a place in it costs a look at all that is before it.
func TestReadStopsAfterManyErrors(t *testing.T) {
	dir := start(t, "a.yaml", model("m", 1), "b.yaml", strings.Repeat("apiVersion: v1\n---\n", 1500), "c.yaml", model("n", 1))
	docs, err := files.Read(dir.path)
	if err == nil || len(docs) != 1 {
		t.Fatalf("%v, %v", docs, err)
	}
	lines := strings.Split(err.Error(), "\n")
	if last := lines[len(lines)-1]; len(lines) != 1001 || last != dir.file("b.yaml")+":2001: documents from here on are not checked: 1000 problems come before them" {
		t.Errorf("%d errors, the last one is %q", len(lines), last)
	}
}

// Each bad document and file has an error of its own, with its place; the others are returned.
func TestReadErrors(t *testing.T) {
	dir := start(t, "a.yaml", model("m", 1)+"---\nkey: pools/x\nqueue:\n  limit: -1\n---\nkey: pools/y\nx: [\n", "b.yaml", model("n", 1)+"---\n"+model("m", 2))
	dir.pipe("c.yaml")
	docs, err := files.Read(dir.path)
	if err == nil || len(docs) != 2 || docs[0].Key != "models/m" || docs[1].Key != "models/n" {
		t.Fatalf("%v, %v", docs, err)
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{"c.yaml: is a named pipe", "a.yaml:7: pools/x: queue.limit: -1: must be", "a.yaml:10: the document is not valid YAML", "b.yaml:5: models/m: the key is given twice, here and at " + dir.file("a.yaml") + ":1"}
	for i, text := range want {
		if len(lines) != len(want) || !strings.HasPrefix(lines[i], dir.path+"/") || strings.Contains(lines[i], "(line") || !strings.Contains(lines[i], text) {
			t.Errorf("%d errors, %q, want %q", len(lines), lines, text)
		}
	}
	var problem *files.Error
	var invalid *document.InvalidError
	if !errors.As(err, &problem) || !errors.As(err, &invalid) || invalid.Key != "pools/x" {
		t.Errorf("errors %v, %v", problem, invalid)
	}
	if _, err := files.Read(dir.file("nowhere")); !errors.Is(err, fs.ErrNotExist) || strings.Count(err.Error(), "nowhere") != 1 {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Files with API keys are refused if others may read them, and others are not.
func TestModes(t *testing.T) {
	key := "key: keys/k\naccount: a\nsha256: '" + strings.Repeat("a", 64) + "'\n"
	dir := start(t, "a.yaml", model("m", 1), "k.yaml", key)
	dir.mode("a.yaml", 0o666)
	w, _ := newWatcher(dir.path, 0)
	dir.check(w.Load())
	f := func(mode fs.FileMode) {
		t.Helper()
		dir.mode("k.yaml", mode)
		want := fmt.Sprintf("k.yaml: has API keys, and with the mode %04o other users may read or change it: chmod 600 %s", mode, dir.file("k.yaml"))
		if err := w.Load(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	f(0o644)
	f(0o604)
	f(0o660)
	dir.mode("k.yaml", 0o400)
	dir.check(w.Load())
	dir.rename("k.yaml", "a.yaml.tmp")
	dir.link("a.yaml.tmp", "k.yaml") // links have no mode
	dir.check(w.Load())
	dir.mode("a.yaml.tmp", 0o444)
	if err := w.Load(); err == nil {
		t.Error("a link to an open file is accepted")
	}
}

// Other things than files are not opened; a pipe would wait for a writer.
func TestPipeDoesNotBlock(t *testing.T) {
	dir := start(t)
	dir.pipe("pipe")
	if _, err := files.Read(dir.file("pipe")); err == nil || !strings.Contains(err.Error(), "is a named pipe") {
		t.Errorf("Read: %v", err)
	}
	dir.link("pipe", "a.yaml")
	if _, err := files.Read(dir.path); err == nil || !strings.Contains(err.Error(), "a.yaml: is a named pipe") {
		t.Errorf("Read: %v", err)
	}
	listener, err := net.Listen("unix", dir.file("socket"))
	dir.check(err)
	defer listener.Close()
	if _, err := files.Read(dir.file("socket")); err == nil || !strings.Contains(err.Error(), "is a socket") {
		t.Errorf("Read: %v", err)
	}
}
