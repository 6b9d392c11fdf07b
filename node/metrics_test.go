package node_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"colonnade/internal/etcdtest"
	"colonnade/node"
)

// Every metric of a running node is listed in docs/metrics.md, for that kind of node.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	s := etcdtest.Start(t)
	colo, _ := startColo(t, config(t, s, "ams-1"))
	entry, _ := startEntry(t, config(t, s, "entry-1"))
	for kind, r := range map[string]node.Running{"colo": colo, "entry": entry} {
		names := regexp.MustCompile(`(?m)^# TYPE (\w+)`).FindAllStringSubmatch(page(t, r, "/metrics"), -1)
		for _, found := range names {
			name := found[1]
			if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
				continue
			}
			row := regexp.MustCompile("(?m)^\\| `" + name + "` \\|.*\\|.*\\|(.*\\b" + kind + "\\b.*)\\|.*\\|$")
			if !row.Match(text) {
				t.Errorf("%s of an %s node is not on the page", name, kind)
			}
		}
		if len(names) < 20 {
			t.Errorf("a %s node has %d metrics", kind, len(names))
		}
	}
}
