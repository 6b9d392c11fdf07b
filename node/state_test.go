package node_test

import (
	"strings"
	"testing"

	"colonnade/internal/etcdtest"
)

// Programs that read /debug/config find empty lists, and not null.
func TestConfigPageHasNoNull(t *testing.T) {
	t.Parallel()
	r, _ := startEntry(t, config(t, etcdtest.Start(t), "entry-1"))
	if got := page(t, r, "/debug/config"); strings.Contains(got, "null") || !strings.Contains(got, `"rejected": []`) {
		t.Errorf("got %s", got)
	}
}
