package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

const (
	mostInterfaces = 5   // in the whole repository; a function or a struct is nearly always enough
	longestMain    = 45  // lines
	longestFile    = 450 // lines
)

func TestBounds(t *testing.T) {
	for _, problem := range boundProblems(loadRepository(t)) {
		t.Error(problem)
	}
}

func boundProblems(packages []pkg) []string {
	var found, interfaces []string
	for _, p := range packages {
		for _, f := range p.files {
			if lines := p.line(f.syntax.FileEnd); lines > longestFile {
				found = append(found, fmt.Sprintf("%s has %d lines, more than %d: split it", f.name, lines, longestFile))
			}
			found = append(found, p.functionProblems(f)...)
			interfaces = append(interfaces, p.interfaces(f)...)
		}
	}
	if len(interfaces) > mostInterfaces {
		found = append(found, fmt.Sprintf("%d interfaces, at most %d: use a function or a struct instead of one of %s",
			len(interfaces), mostInterfaces, strings.Join(interfaces, ", ")))
	}
	return found
}

func (p pkg) line(at token.Pos) int { return p.set.Position(at).Line }

func (p pkg) functionProblems(f file) []string {
	var found []string
	for _, declaration := range f.syntax.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Recv != nil {
			continue
		}
		lines := p.line(function.End()) - p.line(function.Pos()) + 1
		switch {
		case function.Name.Name == "init":
			found = append(found, fmt.Sprintf("%s: func init runs in every program that imports the package: use a variable, or a function that is called", f.name))
		case function.Name.Name == "main" && f.syntax.Name.Name == "main" && lines > longestMain:
			found = append(found, fmt.Sprintf("%s: func main has %d lines, more than %d: move them into run", f.name, lines, longestMain))
		}
	}
	return found
}

// interfaces returns the positions of the interfaces with methods. A list of types that constrains a type parameter is
// not one.
func (p pkg) interfaces(f file) []string {
	var found []string
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if i, ok := n.(*ast.InterfaceType); ok {
			for _, m := range i.Methods.List {
				if _, method := m.Type.(*ast.FuncType); method {
					found = append(found, p.set.Position(i.Pos()).String())
					break
				}
			}
		}
		return true
	})
	return found
}

func TestBoundRules(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		wantProblem(t, boundProblems([]pkg{parse(t, "homes", text)}), want)
	}
	f("package homes; func init() {}", "func init")
	f("package homes; type t struct{}; func (t) init() {}", "")
	f("package main; func main() {\n"+strings.Repeat("\n", longestMain)+"}", "func main has 47 lines")
	f("package homes"+strings.Repeat("\n", longestFile+1), "451 lines")
	f("package homes; "+strings.Repeat("var _ interface{ Close() }; ", mostInterfaces), "")
	f("package homes; "+strings.Repeat("var _ interface{ Close() }; ", mostInterfaces+1), "6 interfaces")
	f("package homes; "+strings.Repeat("func _[T interface{ ~int | any }]() {}; ", mostInterfaces+1), "")
}
