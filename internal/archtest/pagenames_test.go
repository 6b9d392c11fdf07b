package archtest

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// codePages are the pages that name files, packages and identifiers of the code.
var codePages = []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "docs/decisions.md"}

var (
	sourceFile = regexp.MustCompile(`^[a-z]+(?:/[a-z0-9_]+)*\.(?:go|tmpl)$`)
	identifier = regexp.MustCompile(`^([a-z]+)\.([A-Za-z][A-Za-z0-9]*)(?:\.([A-Za-z][A-Za-z0-9]*))?$`)
)

// Files and identifiers that pages name exist.
func TestPagesNameCodeThatExists(t *testing.T) {
	declared := map[string][]string{} // by package name: names, and "Type.Name" of methods and fields
	for _, p := range loadRepository(t) {
		base := path.Base(p.path)
		for _, f := range p.files {
			declared[base] = append(declared[base], packageNames(f.syntax)...)
		}
	}
	for _, page := range codePages {
		content, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range codeSpan.FindAllString(string(content), -1) {
			span = strings.Trim(span, "`")
			if sourceFile.MatchString(span) {
				if _, err := os.Stat(filepath.Join(root, span)); err != nil && strings.Contains(span, "/") {
					t.Errorf("%s: there is no file %s", page, span)
				}
				continue
			}
			m := identifier.FindStringSubmatch(span)
			if m == nil || declared[m[1]] == nil {
				continue
			}
			name := strings.TrimSuffix(m[2]+"."+m[3], ".")
			if !slices.Contains(declared[m[1]], name) {
				t.Errorf("%s: package %s has no %s", page, m[1], name)
			}
		}
	}
}

// packageNames returns the package-level names of a file, and "Type.Name" for the methods and fields of its types.
func packageNames(syntax *ast.File) []string {
	var found []string
	for _, d := range syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			found = append(found, name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				found = append(found, specNames(s)...)
			}
		}
	}
	return found
}

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

func specNames(s ast.Spec) []string {
	var found []string
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			found = append(found, name.Name)
		}
	case *ast.TypeSpec:
		found = append(found, s.Name.Name)
		fields, ok := s.Type.(*ast.StructType)
		if !ok {
			break
		}
		for _, field := range fields.Fields.List {
			for _, name := range field.Names {
				found = append(found, s.Name.Name+"."+name.Name)
			}
		}
	}
	return found
}

var treePath = regexp.MustCompile(`(?:…|[a-z]+)(?:/[a-z0-9-]+)*`)

// The tree in ARCHITECTURE.md has every package of the gateway, each above those that it imports.
func TestArchitectureTree(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tree, _ := strings.Cut(string(content), "```text\n")
	tree, _, _ = strings.Cut(tree, "```")
	height := map[string]int{}
	for i, line := range strings.Split(tree, "\n") {
		names, _, _ := strings.Cut(line+"   ", "   ")
		if strings.HasPrefix(line, "entry ") {
			names = "entry colo"
		}
		above := ""
		for _, name := range treePath.FindAllString(names, -1) {
			if rest, ok := strings.CutPrefix(name, "…"); ok {
				name = above + rest
			} else {
				above = name
			}
			height[name] = -i
		}
	}
	for _, p := range loadRepository(t) {
		switch top, _, _ := strings.Cut(p.path, "/"); top {
		case "internal", "test", "bench", "deploy":
			continue
		}
		if p.path == "cmd" || p.path == "cmd/internal/command" || p.path == "forwarding" {
			continue
		}
		own, ok := height[p.path]
		if !ok {
			t.Errorf("the tree in ARCHITECTURE.md lacks %s", p.path)
			continue
		}
		for _, f := range p.files {
			for _, imported := range f.syntax.Imports {
				below, ours := strings.CutPrefix(strings.Trim(imported.Path.Value, `"`), module+"/")
				if at, in := height[below]; ours && in && at > own {
					t.Errorf("in the tree of ARCHITECTURE.md, %s stands below %s, which it imports", p.path, below)
				}
			}
		}
	}
}
