package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// source is one Go file that is not a test.
type source struct {
	pkg     string // directory, relative to the repository
	name    string // path of the file
	imports []string
	file    *ast.File
	set     *token.FileSet
	lines   int
}

// scan parses the repository's own Go files, those of bench's module too. Vendored and downloaded code is left out.
func scan(repository fs.FS) ([]source, error) {
	var found []source
	err := fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && foreign(repository, name) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		s, err := parse(repository, name)
		if err != nil {
			return err
		}
		found = append(found, s)
		return nil
	})
	return found, err
}

func foreign(repository fs.FS, dir string) bool {
	base := path.Base(dir)
	if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || slices.Contains([]string{"testdata", "vendor", "node_modules"}, base) {
		return true
	}
	_, err := fs.Stat(repository, path.Join(dir, "go.mod"))
	return err == nil && dir != "bench" // a module of its own, so that no gateway carries its plots, but in the table
}

func parse(repository fs.FS, name string) (source, error) {
	text, err := fs.ReadFile(repository, name)
	if err != nil {
		return source{}, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	s := source{pkg: path.Dir(name), name: name, file: file, set: set, lines: strings.Count(string(text), "\n")}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		s.imports = append(s.imports, imported)
	}
	return s, nil
}

// functions calls visit for each function that is not a method.
func (s source) functions(visit func(f *ast.FuncDecl, lines int)) {
	for _, declaration := range s.file.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil {
			visit(f, s.set.Position(f.End()).Line-s.set.Position(f.Pos()).Line+1)
		}
	}
}

// interfaces returns where the file has interfaces with methods. A list of types that constrains a type parameter is
// none.
func (s source) interfaces() []string {
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		i, ok := n.(*ast.InterfaceType)
		if !ok {
			return true
		}
		for _, m := range i.Methods.List {
			if _, method := m.Type.(*ast.FuncType); method {
				found = append(found, s.set.Position(i.Pos()).String())
				break
			}
		}
		return true
	})
	return found
}
