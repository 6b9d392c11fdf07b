package pages

import (
	"regexp"
	"strings"
	"testing"
)

// testLink is a link to a test: its name, and the file that declares it.
var testLink = regexp.MustCompile(`\[(Test\w+)\]\(([^)]+_test\.go)\)`)

// Each row of the threat model names the tests that show what it promises, and these exist.
func TestThreatModelNamesTests(t *testing.T) {
	t.Parallel()
	_, model, found := strings.Cut(read(t, "SECURITY.md"), "\n## Threat model\n")
	model, _, _ = strings.Cut(model, "\n## ")
	rows := 0
	for line := range strings.Lines(model) {
		isRow := strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| ---") && !strings.HasPrefix(line, "| can try")
		if !isRow {
			continue
		}
		rows++
		tests := testLink.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("no test is named for: %s", line)
		}
		for _, m := range tests {
			if !strings.Contains(read(t, m[2]), "\nfunc "+m[1]+"(") {
				t.Errorf("%s has no %s", m[2], m[1])
			}
		}
	}
	if !found || rows < 30 {
		t.Errorf("%d rows in the threat model of SECURITY.md", rows)
	}
}
