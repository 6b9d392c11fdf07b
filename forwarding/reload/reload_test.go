package reload_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"colonnade/forwarding/reload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// parse rejects what is empty.
func parse(contents [][]byte, _ *reload.Version[string]) (string, error) {
	if len(contents[0]) == 0 {
		return "", errors.New("it is empty")
	}
	return string(bytes.Join(contents, nil)), nil
}

// The last good version stays in force while files cannot be read or parsed, and each error is logged once.
func TestLastGoodVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
		write(t, first, "1")
		write(t, second, "x")
		var lines bytes.Buffer
		files, err := reload.Open(reload.Source[string]{
			Name: "value", Paths: []string{first, second}, Parse: parse, Logger: slog.New(slog.NewTextHandler(&lines, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		want := func(value string, number uint64, logged ...string) {
			t.Helper()
			for range 3 {
				time.Sleep(time.Second)
				if v := files.Current(); v.Value != value || v.Number != number {
					t.Errorf("version %d is %q, want version %d with %q", v.Number, v.Value, number, value)
				}
			}
			if got := strings.Count(lines.String(), "\n"); got != len(logged) {
				t.Errorf("%d lines, want %d: %s", got, len(logged), lines.String())
			}
			for _, l := range logged {
				if !strings.Contains(lines.String(), l) {
					t.Errorf("%q is not in the log: %s", l, lines.String())
				}
			}
			lines.Reset()
		}
		want("1x", 1)
		write(t, second, "y")
		want("1y", 2, "files reloaded")
		write(t, first, "")
		want("1y", 2, "it is empty")
		if err := os.Remove(second); err != nil {
			t.Fatal(err)
		}
		want("1y", 2, "no such file")
		write(t, first, "1")
		write(t, second, "y")
		want("1y", 2)
		write(t, first, "3")
		want("3y", 3, "files reloaded")
	})
}

func TestChangesWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a")
		write(t, path, "1")
		files, err := reload.Open(reload.Source[string]{Name: "value", Paths: []string{path}, Parse: parse, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, "2")
		time.Sleep(900 * time.Millisecond)
		if v := files.Current(); v.Value != "1" {
			t.Errorf("read again early: %q", v.Value)
		}
		time.Sleep(100 * time.Millisecond)
		if v := files.Current(); v.Value != "2" {
			t.Errorf("not read again: %q", v.Value)
		}
	})
}

// Files of New are read at their first use, and until the first good read its error is returned.
func TestFirstUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a")
		files := reload.New(reload.Source[string]{Name: "value", Paths: []string{path}, Parse: parse, Logger: slog.New(slog.DiscardHandler)})
		want := func(value, says string) {
			t.Helper()
			got, err := files.Get()
			if got != value || (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("%q, %v; want %q, %q", got, err, value, says)
			}
			time.Sleep(time.Second)
		}
		want("", "no such file")
		write(t, path, "")
		want("", "it is empty")
		write(t, path, "1")
		want("1", "")
		write(t, path, "")
		want("1", "")
	})
}

func TestPanicInParse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	write(t, path, "secret")
	_, err := reload.Open(reload.Source[string]{
		Name: "value", Paths: []string{path}, Parse: func([][]byte, *reload.Version[string]) (string, error) { panic("secret") },
	})
	if err == nil || !strings.Contains(err.Error(), "panic") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// stall replaces a file by a FIFO, whose reader waits until release.
func stall(t *testing.T, path string) (release func()) {
	t.Helper()
	_ = os.Remove(path)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		writer, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Error(err)
			return
		}
		time.Sleep(50 * time.Millisecond) // until the reader has opened it, too
		writer.Close()
	}
}

// A read that stalls delays one caller, and that one for a moment.
func TestStalledRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	write(t, path, "1")
	files, err := reload.Open(reload.Source[string]{Name: "value", Paths: []string{path}, Parse: parse, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	release := stall(t, path)
	defer release()
	time.Sleep(time.Second)
	slow := 0
	for range 100 {
		began := time.Now()
		if v := files.Current(); v.Value != "1" {
			t.Errorf("got %q", v.Value)
		}
		if time.Since(began) > 200*time.Millisecond {
			slow++
		}
	}
	if slow > 1 {
		t.Errorf("%d of 100 callers waited", slow)
	}
}

// A first read that stalls fails its callers after a moment, and not for good.
func TestStalledFirstRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	release := stall(t, path)
	files := reload.New(reload.Source[string]{Name: "value", Paths: []string{path}, Parse: parse, Logger: slog.New(slog.DiscardHandler)})
	for range 2 {
		if _, err := files.Get(); err == nil || !strings.Contains(err.Error(), "still being read") {
			t.Errorf("got %v", err)
		}
	}
	release()
	_ = os.Remove(path)
	write(t, path, "1")
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if got, err := files.Get(); err == nil && got == "1" {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("got %q, %v", got, err)
		}
	}
}
