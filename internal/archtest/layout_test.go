package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"testing"
)

const (
	mostUpward    = 0.25 // share of the references between the files of a package
	fewestOrdered = 3    // files; with two, each may refer to the other
)

// Inside a package, a reader goes from the file with the main flow down to the details. So the files have an order in
// which nearly all references point down, from a file to one below it. A reference that points upward is a detail that
// depends on the main flow: move it up, or move the declaration that it needs down.
func TestLayout(t *testing.T) {
	var layouts []layout
	for _, p := range loadRepository(t) {
		l, err := p.layout()
		if err != nil {
			t.Fatalf("cannot check the types of %s: %v", p.path, err)
		}
		if len(l.files) >= fewestOrdered {
			layouts = append(layouts, l)
		}
	}
	slices.SortFunc(layouts, func(a, b layout) int { return cmp.Compare(b.upward(), a.upward()) })
	for i, l := range layouts {
		if l.upward() > mostUpward {
			t.Errorf("%s\nmore than %.2f: move declarations between the files\n%s", l, mostUpward, l.upwardReferences())
		} else if i < 5 {
			t.Log(l)
		}
	}
}

// layout is a package with its files in the order found, the top first.
type layout struct {
	path  string
	files []string
	order []int   // indexes of files
	refs  weights // by index of files
}

// upward returns the share of the references that point from a file to one above it.
func (l layout) upward() float64 {
	up, total := l.refs.upward(l.order)
	return float64(up) / float64(max(total, 1))
}

func (l layout) String() string {
	var names []string
	for _, i := range l.order {
		names = append(names, strings.TrimPrefix(l.files[i], l.path+"/"))
	}
	up, total := l.refs.upward(l.order)
	return fmt.Sprintf("%s: %.2f, %d of %d references between files point upward in the order %s",
		l.path, l.upward(), up, total, strings.Join(names, " "))
}

func (l layout) upwardReferences() string {
	var b strings.Builder
	for below, from := range l.order {
		for _, to := range l.order[:below] {
			if l.refs[from][to] > 0 {
				fmt.Fprintf(&b, "  %s refers to %s: %d times\n", l.files[from], l.files[to], l.refs[from][to])
			}
		}
	}
	return b.String()
}

// layout counts, for each two files of the package, how often one refers to a package-level name, a method or a field
// that the other declares.
func (p pkg) layout() (layout, error) {
	l := layout{path: p.path}
	var syntax []*ast.File
	index := map[string]int{}
	for _, f := range p.files {
		if f.built {
			index[f.name] = len(l.files)
			l.files = append(l.files, f.name)
			syntax = append(syntax, f.syntax)
		}
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: p.importer}
	if _, err := config.Check(module+"/"+p.path, p.set, syntax, &info); err != nil {
		return layout{}, err
	}
	l.refs = newWeights(len(l.files))
	for name, object := range info.Uses {
		// Declarations of other packages have positions in other files, or none.
		to, ok := index[p.set.Position(object.Pos()).Filename]
		if from := index[p.set.Position(name.Pos()).Filename]; ok && from != to {
			l.refs[from][to]++
		}
	}
	l.order = l.refs.arrange()
	return l, nil
}

func TestLayoutRule(t *testing.T) {
	f := func(want string, texts ...string) {
		t.Helper()
		l, err := parse(t, "homes", texts...).layout()
		if err != nil {
			t.Fatal(err)
		}
		if got := l.String(); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	const story = "package homes; func f() { g(T{}); g(T{n: 1}) }"
	f("homes: 0.00, 0 of 6 references between files point upward in the order a.go b.go c.go",
		story, "package homes; func g(t T) {}", "package homes; type T struct { n int }")
	f("homes: 0.14, 1 of 7 references between files point upward in the order a.go b.go c.go",
		story, "package homes; func g(t T) { f() }", "package homes; type T struct { n int }")
	f("homes: 0.50, 1 of 2", "package homes; func f() { g() }", "package homes; func g() { f() }")
}
