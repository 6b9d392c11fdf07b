package colo

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/fleet"
)

func endpointWith(credential string) *fleet.Endpoint {
	return &fleet.Endpoint{ID: "gpu-1", Credential: credential}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// expectKey wants the key that a credential names, or an error that contains says and nothing of the file.
func expectKey(t *testing.T, c *credentials, credential, want, says string) {
	t.Helper()
	fields, err := c.appendFields(nil, endpointWith(credential))
	if says != "" {
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", credential, err, says)
		}
		return
	}
	if err != nil || want == "" && fields != nil || want != "" && (len(fields) != 1 || fields[0].Name != "Authorization" || fields[0].Value != "Bearer "+want) {
		t.Errorf("%s: %v, %v; want %q", credential, fields, err, want)
	}
}

func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	t.Setenv("COLONNADE_CREDENTIAL_TEST", " from-env\n")
	c := newCredentials(dir, nil, slog.New(slog.DiscardHandler))
	f := func(credential, want, says string) {
		t.Helper()
		expectKey(t, c, credential, want, says)
	}
	f("", "", "")
	f("env:COLONNADE_CREDENTIAL_TEST", "from-env", "")
	f("env:COLONNADE_CREDENTIAL_NONE", "", "environment variable is not set")
	f("token", "", "must be env:COLONNADE_CREDENTIAL_NAME or file:PATH")
	f("file:key", "", "no such file")
	writeFile(t, path, "from-file\n")
	time.Sleep(time.Second) // a file is not read more often
	f("file:key", "from-file", "")
	f("file:"+path, "from-file", "")
	writeFile(t, path, "")
	f("file:key", "from-file", "")
}

// A document names files below the directory for credentials, none of the node's own, and variables with the prefix only.
func TestCredentialsThatAreRefused(t *testing.T) {
	above := t.TempDir()
	dir := filepath.Join(above, "credentials")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	outside, own := filepath.Join(above, "outside"), filepath.Join(dir, "fleet.key")
	writeFile(t, outside, "secret")
	writeFile(t, own, "secret")
	writeFile(t, filepath.Join(dir, "large"), strings.Repeat("secret", maxCredentialSize))
	if err := os.Symlink("../outside", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VLLM_KEY", "secret")
	c := newCredentials(dir, []string{own}, slog.New(slog.DiscardHandler))
	for credential, says := range map[string]string{
		"file:" + outside:          "not below",
		"file:/proc/self/environ":  "not below",
		"file:../outside":          "escapes",
		"file:link":                "escapes",
		"file:fleet.key":           "file of this node",
		"file:" + own:              "file of this node",
		"file:.":                   "not a regular file",
		"file:large":               "larger than",
		"env:VLLM_KEY":             "must be env:COLONNADE_CREDENTIAL_NAME",
		"env:COLONNADE_CREDENTIAL": "must be env:COLONNADE_CREDENTIAL_NAME",
	} {
		expectKey(t, c, credential, "", says)
	}
	expectKey(t, newCredentials("", nil, slog.New(slog.DiscardHandler)), "file:"+outside, "", "no -credentials-dir")
}

// A text that cannot stand in a header is an error at once, and the error says where the fault is.
func TestCredentialsThatAreNotOneLine(t *testing.T) {
	for text, says := range map[string]string{
		"":                   "is empty",
		" \n":                "is empty",
		"secret\nsecret":     "has 2 lines",
		"secret\r\nx: y\n\n": "has 2 lines",
		"secret\x00":         "control character",
		"secret\rsecret":     "control character",
	} {
		if key, err := parseCredential(text); key != "" || err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %q, %v; want %q", text, key, err, says)
		}
	}
}

// The number of files in memory is that of the endpoints' documents in force.
func TestCredentialFilesAreForgotten(t *testing.T) {
	c := newCredentials(t.TempDir(), nil, slog.New(slog.DiscardHandler))
	for _, name := range []string{"a", "b"} {
		expectKey(t, c, "file:"+name, "", "no such file")
	}
	c.retain([]*fleet.Endpoint{endpointWith(""), endpointWith("file:b")})
	if len(c.files) != 1 || c.files["b"] == nil {
		t.Errorf("%d files are kept, want b", len(c.files))
	}
}

// A credential file that stalls holds up no request to another endpoint.
func TestStalledCredential(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "good"), "key")
	c := newCredentials(dir, nil, slog.New(slog.DiscardHandler))
	release, fromDir := make(chan struct{}), c.readFile
	t.Cleanup(func() { close(release) })
	c.readFile = func(path string) ([]byte, error) {
		if path == "stalled" {
			<-release
		}
		return fromDir(path)
	}
	var requests sync.WaitGroup
	for range 10 {
		requests.Go(func() {
			if _, err := c.appendFields(nil, endpointWith("file:stalled")); err == nil || !strings.Contains(err.Error(), "still being read") {
				t.Errorf("the stalled file: %v", err)
			}
		})
	}
	served := make(chan error, 1)
	go func() {
		_, err := c.appendFields(nil, endpointWith("file:good"))
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
}

// The credential that was sent is taken out of texts of the answer, whatever the endpoint's credential is by then.
func TestRedactByTheCredentialThatWasSent(t *testing.T) {
	t.Parallel()
	if got := (&EngineAnswer{credential: "old-key"}).Redact("old-key is not new-key"); got != "… is not new-key" {
		t.Errorf("got %q", got)
	}
	if got := (&EngineAnswer{}).Redact("as it is"); got != "as it is" {
		t.Errorf("got %q", got)
	}
}
