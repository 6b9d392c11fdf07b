package archtest

import (
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "colonnade"

func TestRepository(t *testing.T) {
	repository := os.DirFS("../..")
	if _, err := fs.Stat(repository, "go.mod"); err != nil {
		t.Fatalf("the repository is not where this test looks for it: %v", err)
	}
	for _, problem := range problems(t, repository) {
		t.Error(problem)
	}
}

func problems(t *testing.T, repository fs.FS) []string {
	t.Helper()
	sources, err := scan(repository)
	if err != nil {
		t.Fatal(err)
	}
	var found, interfaces []string
	for _, s := range sources {
		found = append(found, importProblems(s)...)
		found = append(found, functionProblems(s)...)
		if s.lines > longestFile {
			found = append(found, fmt.Sprintf("%s has %d lines, more than %d: split it", s.name, s.lines, longestFile))
		}
		interfaces = append(interfaces, s.interfaces()...)
	}
	if len(interfaces) > mostInterfaces {
		found = append(found, fmt.Sprintf("%d interfaces, at most %d: take a function or a struct instead of one of %s",
			len(interfaces), mostInterfaces, strings.Join(interfaces, ", ")))
	}
	return found
}

func importProblems(s source) []string {
	r, ok := rowOf(s.pkg)
	if !ok {
		return []string{fmt.Sprintf("%s: package %s has no row in the table of internal/archtest: add one, with its reason", s.name, s.pkg)}
	}
	var found []string
	for _, imported := range s.imports {
		if !r.allows(s.pkg, imported) {
			found = append(found, fmt.Sprintf("%s imports %s, which %s may not: %s", s.name, imported, s.pkg, r.why))
		}
		if under(imported, "github.com/valyala/fasthttp") && !slices.Contains(fasthttpIn, s.pkg) {
			found = append(found, fmt.Sprintf("%s imports fasthttp, which stays inside %s", s.name, strings.Join(fasthttpIn, ", ")))
		}
	}
	return found
}

func rowOf(pkg string) (row, bool) {
	i := slices.IndexFunc(table, func(r row) bool { return matches(r.path, pkg) })
	if i < 0 {
		return row{}, false
	}
	return table[i], true
}

func (r row) allows(pkg, imported string) bool {
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		listed := func(patterns []string) bool {
			return slices.ContainsFunc(patterns, func(p string) bool { return p == "*" || matches(p, ours) })
		}
		// Help for tests is for tests, and for what is made to try things out.
		if strings.HasPrefix(ours, "internal/") && r.ours != nil && slices.Contains(r.ours, "*") && !helpsTesting(pkg) {
			return false
		}
		return listed(r.ours) && !listed(r.never)
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(r.third, func(p string) bool { return under(imported, p) })
}

func helpsTesting(pkg string) bool {
	return pkg == "onebox" || pkg == "cmd/colonnade" || pkg == "internal/fleettest" || under(pkg, "test")
}

func matches(pattern, pkg string) bool {
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return under(pkg, below)
	}
	return pattern == pkg
}

func under(path, prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }

func functionProblems(s source) []string {
	var found []string
	s.functions(func(f *ast.FuncDecl, lines int) {
		switch {
		case f.Name.Name == "init":
			found = append(found, fmt.Sprintf("%s: func init runs for whoever imports the package: use a variable, or a function that is called", s.name))
		case f.Name.Name == "main" && s.file.Name.Name == "main" && lines > longestMain:
			found = append(found, fmt.Sprintf("%s: func main has %d lines, more than %d: move them into run", s.name, lines, longestMain))
		}
	})
	return found
}

// Each rule sees what breaks it.
func TestRulesSee(t *testing.T) {
	f := func(name, text, want string) {
		t.Helper()
		got := problems(t, fstest.MapFS{name: {Data: []byte(text)}})
		if want == "" && len(got) != 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			t.Errorf("%s:\n%s\ngot %q, want one with %q", name, text, got, want)
		}
	}
	f("entry/a.go", `package entry; import ("net/http"; "colonnade/routing"; "github.com/valyala/fasthttp")`, "")
	f("entry/a.go", `package entry; import "colonnade/permits"`, "imports colonnade/permits, which entry may not")
	f("entry/a.go", `package entry; import "colonnade/internal/simengine"`, "may not")
	f("entry/a_test.go", `package entry; import "colonnade/permits"`, "")
	f("openai/a.go", `package openai; import "github.com/google/uuid"`, "may not")
	f("cmd/entry/a.go", `package main; import "colonnade/fairqueue"`, "may not")
	f("cmd/entry/a.go", `package main; import "colonnade/internal/simengine"`, "may not")
	f("cmd/colonnade/a.go", `package main; import "colonnade/internal/simengine"`, "")
	f("admin/a.go", `package admin; import "colonnade/entry"`, "may not")
	f("discovery/etcd/a.go", `package etcd; import _ "go.etcd.io/etcd/client/v3/concurrency"`, "")
	f("discovery/etcd/a.go", `package etcd; import _ "go.etcd.io/etcd/client/v3x"`, "may not")
	f("util/a.go", "package util", "package util has no row")
	f("test/other/go.mod", "module other", "")
	f("bench/a.go", `package bench; import "colonnade/entry"`, "may not")
	f("homes/a.go", "package homes; func init() {}", "func init")
	f("homes/a.go", "package homes; type t struct{}; func (t) init() {}", "")
	f("cmd/colo/a.go", "package main; func main() {\n"+strings.Repeat("\n", longestMain)+"}", "func main has 47 lines")
	f("homes/a.go", "package homes"+strings.Repeat("\n", longestFile+1), "451 lines")
	f("homes/a.go", "package homes; "+strings.Repeat("var _ interface{ Close() }; ", mostInterfaces), "")
	f("homes/a.go", "package homes; "+strings.Repeat("var _ interface{ Close() }; ", mostInterfaces+1), "5 interfaces")
	f("homes/a.go", "package homes; "+strings.Repeat("func _[T interface{ ~int | any }]() {}; ", mostInterfaces+1), "")
}

func TestFasthttpStaysInside(t *testing.T) {
	for _, r := range table {
		for _, third := range r.third {
			if under(third, "github.com/valyala/fasthttp") && !slices.Contains(fasthttpIn, r.path) {
				t.Errorf("the table allows fasthttp in %s", r.path)
			}
		}
	}
}

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range table {
		if seen[r.path] || r.why == "" {
			t.Errorf("row %q is there twice, or without a reason", r.path)
		}
		seen[r.path] = true
	}
	for _, r := range table {
		for _, name := range append(append([]string{}, r.ours...), r.never...) {
			if name != "*" && !strings.HasSuffix(name, "/...") && !seen[name] {
				t.Errorf("row %q names %s, which has no row", r.path, name)
			}
		}
	}
}
