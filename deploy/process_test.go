package deploy

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"colonnade/internal/testkit"
)

// start starts one of our binaries with nothing in its environment but what is given, and how races are told.
func start(t *testing.T, environment []string, args ...string) *testkit.Process {
	t.Helper()
	cmd := exec.Command(testkit.Binary(t, args[0]), args[1:]...)
	cmd.Env = append([]string{testkit.GORACE + "=" + os.Getenv(testkit.GORACE)}, environment...)
	return testkit.Start(t, cmd)
}

// endWell fails the test if a process ended, or ends, with an error.
func endWell(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func keyFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fleet.key")
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	if err := os.WriteFile(name, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// answer is what a client gets.
type answer struct {
	status int
	colo   string
	body   string
}

func post(address, path, body string) answer {
	client := http.Client{Timeout: testkit.Timeout}
	r, err := client.Post("http://"+address+path, "application/json", strings.NewReader(body))
	if err != nil {
		return answer{body: err.Error()}
	}
	defer r.Body.Close()
	said, _ := io.ReadAll(r.Body)
	return answer{r.StatusCode, r.Header.Get("X-Colonnade-Colo"), string(said)}
}
