package colo

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"colonnade/fleet"
)

func endpointWith(credential string) *fleet.Endpoint {
	return &fleet.Endpoint{ID: "gpu-1", Credential: credential}
}

func TestCredentials(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	t.Setenv("COLONNADE_TEST_KEY", " from-env\n")
	c := newCredentials(slog.New(slog.DiscardHandler))
	f := func(credential, want, says string) {
		t.Helper()
		fields, err := c.fields(endpointWith(credential))
		if says != "" {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", credential, err, says)
			}
			return
		}
		if err != nil || want == "" && fields != nil || want != "" && (len(fields) != 1 || fields[0].Name != "Authorization" || fields[0].Value != "Bearer "+want) {
			t.Errorf("%s: %v, %v; want %q", credential, fields, err, want)
		}
	}
	f("", "", "")
	f("env:COLONNADE_TEST_KEY", "from-env", "")
	f("env:COLONNADE_TEST_NONE", "", "environment variable is not set")
	f("secret", "", "must be env:NAME or file:PATH")
	f("file:"+path, "", "no such file")
	if err := os.WriteFile(path, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // a file is not read more often
	f("file:"+path, "from-file", "")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f("file:"+path, "from-file", "")
}

// A credential file that stalls holds up no request to another endpoint.
func TestStalledCredential(t *testing.T) {
	stalled, good := filepath.Join(t.TempDir(), "stalled"), filepath.Join(t.TempDir(), "good")
	if err := syscall.Mkfifo(stalled, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(good, []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCredentials(slog.New(slog.DiscardHandler))
	var requests sync.WaitGroup
	for range 10 {
		requests.Go(func() {
			if _, err := c.fields(endpointWith("file:" + stalled)); err == nil || !strings.Contains(err.Error(), "still being read") {
				t.Errorf("the stalled file: %v", err)
			}
		})
	}
	served := make(chan error, 1)
	go func() {
		_, err := c.fields(endpointWith("file:" + good))
		served <- err
	}()
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("held up by the file of another endpoint")
	}
	requests.Wait()
	writer, err := os.OpenFile(stalled, os.O_RDWR, 0) // releases the reader
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	writer.Close()
}
