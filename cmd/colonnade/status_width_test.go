package main

import (
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Tables of numbers fit a terminal of 80 columns: columns with only zeros are left out first, and no others unless they must.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	titles := []string{"~COLO", "~SERVER", ">HOME OF", ">HELD", ">WAITING", "?>OWNED", "?>WANTED", "?>ELSEWHERE", "?>WRITTEN OFF", "~"}
	f := func(width int, row []any, want, notWant string) {
		t.Helper()
		out := &screen{width: width, colour: true}
		out.table("", titles, [][]any{row})
		plain := text.StripEscape(out.String())
		for line := range strings.Lines(plain) {
			if n := len(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns on a terminal of %d:\n%s", n, width, plain)
			}
		}
		for title := range strings.FieldsSeq(want) {
			if !strings.Contains(plain, title) {
				t.Errorf("no %s on a terminal of %d columns:\n%s", title, width, plain)
			}
		}
		for title := range strings.FieldsSeq(notWant) {
			if strings.Contains(plain, title) {
				t.Errorf("%s on a terminal of %d columns:\n%s", title, width, plain)
			}
		}
	}
	f(120, []any{"amsterdam", "ams-1.rack-12.example", 3, 12, 40, 0, 2, 5, 1, "NOT READY"}, "OWNED WANTED ELSEWHERE WRITTEN READY", "")
	f(80, []any{"amsterdam", "ams-1.rack-12.example", 3, 12, 40, 0, 2, 5, 1, "NOT READY"}, "HOME WAITING WANTED ELSEWHERE", "OWNED")
	f(60, []any{"amsterdam", "ams-1.rack-12.example", 3, 12, 40, 7, 2, 5, 1, "NOT READY"}, "HOME WAITING", "WRITTEN")
}

// A colo without an engine of a pool that another colo has is not at fault, and its refusals were no client's.
func TestPoolWithoutAnEngineHere(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"models/m": "pool: chat\n", "colos/ams": "{}", "colos/fra": "{}", "endpoints/ams/gpu-1": "url: http://h:1\npool: chat\n"})
	pooled("ams-1", busyPage).register(t, s, "servers/ams/ams-1")
	empty := `[{"colo": "fra", "node": "fra-1", "pool": "chat", "granting": true, "refused": {"no_endpoint": 7}, "queue": {"limit": 3}}]`
	pooled("fra-1", empty).register(t, s, "servers/fra/fra-1")
	out := run(t, "", "status").want(t, "no engine here", "no engine  7, which went to another colo")
	if strings.Contains(out, "NO ENDPOINT") || strings.Contains(out, "no_endpoint 7") {
		t.Errorf("a colo without an engine looks at fault:\n%s", out)
	}
}
