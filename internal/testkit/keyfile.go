package testkit

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"
)

// KeyFile returns the path of a key file for the nodes of a fleet, in a directory of its own.
func KeyFile(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fleet.key")
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	if err := os.WriteFile(name, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
