// Package deploy holds what a fleet is set up with; its test reads the sample documents as a node would.
package deploy

import (
	"os"
	"path/filepath"
	"testing"

	"colonnade/fleet"
)

func TestSampleDocuments(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		docs, err := fleet.SplitFile(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		all := fleet.NewDocuments()
		for _, d := range docs {
			if err := all.Put(d.Key, d.Value, 1); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		table := all.Table()
		if m, ok := table.Model("default"); !ok || len(table.Endpoints("ams", m.Pool)) != 1 {
			t.Errorf("%s: the alias default leads to no endpoint", name)
		}
	}
}
