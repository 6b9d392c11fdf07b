package fleettest

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const adminToken = "a-token-of-these-tests"

// AdminTokens writes a file with a token of the admin API, for [onebox.Config.AdminTokens].
func AdminTokens(t testing.TB) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "admin-tokens")
	if err := os.WriteFile(file, []byte("ops "+adminToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// CallAPI calls an operation of the admin API of the node whose admin listener is at an address, and returns the status and the body of the
// answer. The path is below /api/v1; an empty body is none.
func (f *Fleet) CallAPI(admin, method, path, body string) (status int, answer Tree) {
	f.T.Helper()
	r, err := http.NewRequest(method, "http://"+admin+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		f.T.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+adminToken)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := f.Client.Do(r)
	if err != nil {
		f.T.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		f.T.Fatalf("%s %s: %v: %s", method, path, err, text)
	}
	return response.StatusCode, answer
}

// MustCallAPI is CallAPI for an operation that must succeed.
func (f *Fleet) MustCallAPI(admin, method, path, body string) (answer Tree) {
	f.T.Helper()
	status, answer := f.CallAPI(admin, method, path, body)
	if status >= 300 {
		f.T.Fatalf("%s %s: %d %v", method, path, status, answer)
	}
	return answer
}
