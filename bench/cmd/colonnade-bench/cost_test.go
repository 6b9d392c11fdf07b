package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCostFlags(t *testing.T) {
	t.Parallel()
	f := func(line string, want ...string) {
		t.Helper()
		var out, notes bytes.Buffer
		err := run(t.Context(), strings.Fields("cost "+line), &out, &notes)
		for _, text := range want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want %q", line, err, text)
			}
		}
	}
	f("-scenario nope", `-scenario "nope": there is no such scenario; there are plain, spaced, chunk`)
	f("-nope", "see colonnade-bench cost -h")
	f("more", `unexpected argument "more"`)
	f("-tiny -programs /nowhere", "cannot find a program", "make build builds it")
	var out bytes.Buffer
	if err := run(t.Context(), []string{"cost", "-h"}, &out, &out); err != nil || !strings.Contains(out.String(), "Scenarios: plain, spaced, ") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// A report of what requests cost is rendered again from its JSON, as the page that it was.
func TestCostFrom(t *testing.T) {
	t.Parallel()
	const published = "../../../docs/performance.json"
	dir := t.TempDir()
	var out, notes bytes.Buffer
	if err := run(t.Context(), []string{"cost", "-from", published, "-out", dir}, &out, &notes); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "performance.md"))
	if err != nil || !strings.HasPrefix(string(text), "# Performance\n") || !strings.Contains(out.String(), "aims are met") {
		t.Errorf("%v, the page begins with %.20q, and the output is %s", err, text, out.String())
	}
}
