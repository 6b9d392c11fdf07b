package archtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestImports(t *testing.T) {
	for _, problem := range importProblems(table, loadRepository(t)) {
		t.Error(problem)
	}
}

// importProblems compares what packages import with the rows of a table, in both directions.
func importProblems(rows []row, packages []pkg) []string {
	var found []string
	for _, p := range packages {
		i := slices.IndexFunc(rows, func(r row) bool { return r.path == p.path })
		if i < 0 {
			found = append(found, fmt.Sprintf("package %s has no row in the table of internal/archtest: add one, with its reason", p.path))
			continue
		}
		found = append(found, rows[i].check(p.imports())...)
	}
	for _, r := range rows {
		if !slices.ContainsFunc(packages, func(p pkg) bool { return p.path == r.path }) {
			found = append(found, fmt.Sprintf("row %s: there is no such package with code beside its tests: delete the row", r.path))
		}
	}
	return found
}

// imports maps each imported path to a file that imports it.
func (p pkg) imports() map[string]string {
	found := map[string]string{}
	for _, f := range p.files {
		for _, spec := range f.syntax.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err == nil {
				found[path] = f.name
			}
		}
	}
	return found
}

// check reports imports that the row does not allow, and allowances that no import uses.
func (r row) check(imports map[string]string) []string {
	var found []string
	unused := map[string]bool{}
	for _, allowed := range slices.Concat(r.ours, r.third) {
		unused[allowed] = true
	}
	for path, file := range imports {
		allowed, ok := r.allows(path)
		if !ok {
			found = append(found, fmt.Sprintf("%s imports %s, which %s may not: %s", file, path, r.path, r.why))
		}
		delete(unused, allowed)
	}
	for allowed := range unused {
		found = append(found, fmt.Sprintf("row %s allows %s, which the package does not import: delete it there", r.path, allowed))
	}
	slices.Sort(found)
	return found
}

// allows returns the allowance that covers an import, empty for the standard library, which is free.
func (r row) allows(imported string) (string, bool) {
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		return ours, slices.Contains(r.ours, ours)
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return "", true
	}
	i := slices.IndexFunc(r.third, func(prefix string) bool { return imported == prefix || strings.HasPrefix(imported, prefix+"/") })
	if i < 0 {
		return "", false
	}
	return r.third[i], true
}

func TestImportRules(t *testing.T) {
	rows := []row{
		{path: "fleet", why: "it is below"},
		{path: "entry", ours: []string{"fleet"}, third: []string{"example.org/etcd/v3"}, why: "it is above"},
	}
	fleet := parse(t, "fleet", `package fleet; import "net/http"`)
	f := func(want string, entry ...pkg) {
		t.Helper()
		wantProblem(t, importProblems(rows, append(entry, fleet)), want)
	}
	const allowed = `package entry; import ("colonnade/fleet"; "example.org/etcd/v3/concurrency")`
	f("", parse(t, "entry", allowed))
	f("imports colonnade/permits, which entry may not: it is above", parse(t, "entry", allowed, `package entry; import "colonnade/permits"`))
	f("imports example.org/etcd/v3x, which entry may not", parse(t, "entry", allowed, `package entry; import "example.org/etcd/v3x"`))
	f("row entry allows fleet, which the package does not import", parse(t, "entry", `package entry; import "example.org/etcd/v3"`))
	f("row entry allows example.org/etcd/v3, which", parse(t, "entry", `package entry; import "colonnade/fleet"`))
	f("package util has no row", parse(t, "entry", allowed), parse(t, "util", `package util`))
	f("row entry: there is no such package")
}

// A reader finds the layers of the tree in the order of the rows.
func TestTableStandsFromTheBottomUp(t *testing.T) {
	above := map[string]bool{}
	for _, r := range table {
		if above[r.path] || r.why == "" {
			t.Errorf("row %s is there twice, or has no reason", r.path)
		}
		for _, path := range r.ours {
			if !above[path] {
				t.Errorf("row %s allows %s, which has no row above it", r.path, path)
			}
		}
		above[r.path] = true
	}
}

// The requests and responses of fasthttp are used again by other requests: strings that leave these packages are copied.
func TestFasthttpStaysInside(t *testing.T) {
	inside := []string{"entry", "colo", "forwarding/server", "forwarding/relay", "internal/forwardtest", "bench/cost"}
	for _, r := range table {
		if slices.Contains(r.third, fasthttp) && !slices.Contains(inside, r.path) {
			t.Errorf("row %s allows fasthttp, which only %s may import", r.path, strings.Join(inside, ", "))
		}
	}
}
