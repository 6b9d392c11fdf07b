package fleet_test

import (
	"encoding/json"
	"strings"
	"testing"

	"colonnade/fleet/document"
)

// A node that does not watch pools must not show pools with defaults that are not in force.
func TestDumpLeavesOutUnwantedKeys(t *testing.T) {
	docs := document.NewSet()
	if err := docs.Put("models/m", []byte("pool: p\n"), 1); err != nil {
		t.Fatal(err)
	}
	f := func(wanted func(string) bool, want bool) {
		t.Helper()
		text, err := json.Marshal(docs.Table().Dump(wanted))
		if err != nil || !strings.Contains(string(text), `"models/m"`) || strings.Contains(string(text), `"pools/p"`) != want {
			t.Errorf("%s, %v; want pools: %v", text, err, want)
		}
	}
	f(func(string) bool { return true }, true)
	f(func(key string) bool { return strings.HasPrefix(key, "models/") }, false)
}
