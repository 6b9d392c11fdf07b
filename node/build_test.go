package node_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"colonnade/internal/etcdtest"
	"colonnade/node"
)

// The pages of a node name the software that it runs.
func TestVersionIsReported(t *testing.T) {
	t.Parallel()
	r, _ := startEntry(t, config(t, etcdtest.Start(t), "entry-1"))
	want := fmt.Sprintf(`colonnade_build_info{go=%q,revision="",version=%q} 1`, runtime.Version(), node.Version())
	if got := page(t, r, "/metrics"); !strings.Contains(got, want+"\n") {
		t.Errorf("no metric %s", want)
	}
	if got := page(t, r, "/debug/config"); !strings.Contains(got, fmt.Sprintf(`"version": %q`, node.Version())) {
		t.Errorf("no version on the page: %s", got)
	}
}

// The setting reaches both kinds of nodes.
func TestMetricsOfAccountsAreSwitchedOn(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	c := config(t, s, "entry-1")
	c.MetricsAccounts = 5
	entry, _ := startEntry(t, c)
	c = config(t, s, "ams-1")
	c.MetricsAccounts = 5
	colo, _ := startColo(t, c)
	for r, want := range map[*node.Running]string{
		&entry: `colonnade_account_requests_total{account="other",outcome="completed"} 0`,
		&colo:  `colonnade_account_tokens_total{account="other",type="prompt"} 0`,
	} {
		if got := page(t, *r, "/metrics"); !strings.Contains(got, want+"\n") {
			t.Errorf("%s has no metric %s", r.Node, want)
		}
	}
}
