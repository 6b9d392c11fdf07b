package trust_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/onebox"
)

// credentialsSeen is an engine that records the credentials that it gets, also with health checks.
type credentialsSeen struct {
	mu   sync.Mutex // guards the field below
	seen []string
}

func (e *credentialsSeen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := r.Header.Get("Authorization"); !slices.Contains(e.seen, s) {
		e.seen = append(e.seen, s)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"id":"x"}`))
}

// The document of an endpoint chooses a file and the URL that gets its content: no file outside of the directory for
// credentials is sent, by whatever path or link.
func TestCredentialFilesOutsideOfTheirDirectory(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	dir, outside := filepath.Join(above, "credentials"), filepath.Join(above, "fleet.key")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(outside, []byte("canary\n"), 0o600), os.WriteFile(filepath.Join(dir, "good"), []byte("good\n"), 0o600),
		os.Symlink(outside, filepath.Join(dir, "absolute")), os.Symlink("../fleet.key", filepath.Join(dir, "relative")), os.Symlink("..", filepath.Join(dir, "up"))); err != nil {
		t.Fatal(err)
	}
	engine := &credentialsSeen{}
	server := httptest.NewServer(engine)
	t.Cleanup(server.Close)
	files := []string{"good", filepath.Join(dir, "good"), outside, "absolute", "relative", "up/fleet.key", dir + "x"}
	var documents strings.Builder
	for i, file := range files {
		fmt.Fprintf(&documents, "key: models/m%d\nretry: {errors: 0}\n---\nkey: endpoints/ams/e%d\nurl: %s/%d\npool: m%d\ncredential: file:%s\n---\n", i, i, server.URL, i, i, file)
	}
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}, CredentialsDir: dir}, documents.String())
	f.WatchShared(8)
	for i, file := range files {
		a := f.Chat(fmt.Sprintf(`{"model":"m%d","messages":[]}`, i))
		if good := i < 2; good != (a.Status == 200) || !good && a.Status != 502 && a.Status != 503 || strings.Contains(a.Body, "canary") {
			t.Errorf("credential file %s: answered %d %s", file, a.Status, a.Body)
		}
	}
	engine.mu.Lock()
	defer engine.mu.Unlock()
	if !slices.Equal(engine.seen, []string{"Bearer good"}) {
		t.Errorf("the engine got %q", engine.seen)
	}
}
