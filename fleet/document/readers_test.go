package document_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// readByDecoder are the fields that only this package reads, with the use that it makes of them.
var readByDecoder = map[string]string{
	"PoolPermits.PerEndpoint": "a default of Endpoint.Concurrency",
	"EntryNode.Position":      "for people: the entry has it from its flag",
	"EntryNode.Protocol":      "whether the document may have unknown fields",
	"ProtocolRange.Min":       "told to nodes of later versions",
}

// Each field that documents accept has a reader in the product: code outside of this package that selects the field
// without assigning to it. A field that nothing reads would be accepted and ignored.
func TestEachFieldHasAReader(t *testing.T) {
	readers := fieldReaders(t)
	isRead := func(field string) bool {
		for _, pkg := range readers["colonnade/fleet."+field] {
			if pkg != "colonnade/fleet/document" && !strings.HasPrefix(pkg, "colonnade/internal/") {
				return true
			}
		}
		return false
	}
	expected := maps.Clone(readByDecoder)
	for _, noun := range []any{
		fleet.Model{}, fleet.Pool{}, fleet.Colo{}, fleet.Endpoint{}, fleet.Account{}, fleet.APIKey{}, fleet.Deletions{}, fleet.Flow{}, fleet.Server{}, fleet.EntryNode{}, fleet.Capture{}, fleet.Sink{},
	} {
		for _, field := range unread(reflect.TypeOf(noun), isRead) {
			if readByDecoder[field] == "" {
				t.Errorf("documents accept %s, but nothing reads it: name the field in a tag \"unsupported\" instead", field)
			}
			delete(expected, field)
		}
	}
	for field := range expected {
		t.Errorf("%s has a reader: take it out of readByDecoder", field)
	}
	for _, field := range unread(document.DefaultsType, func(field string) bool { return len(readers["colonnade/fleet/document."+field]) > 0 }) {
		t.Errorf("the defaults document accepts %s, but nothing reads it", field)
	}

	t.Run("a field without a reader is found", func(t *testing.T) {
		type Inner struct {
			Deep int `json:"deep"`
		}
		type Noun struct {
			fleet.Colo
			Name    string           `json:"-"`
			Ignored string           `json:"ignored"`
			Inner   map[string]Inner `json:"inner"`
			_       struct{}         `unsupported:"refused"`
		}
		if got := fmt.Sprint(unread(reflect.TypeFor[Noun](), isRead)); got != "[Noun.Ignored Noun.Inner Inner.Deep]" {
			t.Errorf("found %s", got)
		}
	})
}

// unread returns the fields that documents accept, at any depth of a struct, and that are not read.
func unread(t reflect.Type, isRead func(string) bool) []string {
	var found []string
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || name == "" && !field.Anonymous {
			continue
		}
		if key := t.Name() + "." + field.Name; !field.Anonymous && !isRead(key) {
			found = append(found, key)
		}
		inner := field.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() {
			found = append(found, unread(inner, isRead)...)
		}
	}
	return found
}

// fieldReaders returns the packages of the product that read each field of a struct, by its package, type and name.
func fieldReaders(t *testing.T) map[string][]string {
	t.Helper()
	readers := map[string][]string{}
	for _, p := range listPackages(t) {
		if p.DepOnly || p.ImportPath != "colonnade/fleet" && !slices.Contains(p.Deps, "colonnade/fleet") {
			continue
		}
		selections, assigned := p.check(t), map[ast.Expr]bool{}
		for _, file := range p.files {
			ast.Inspect(file, func(n ast.Node) bool {
				if a, ok := n.(*ast.AssignStmt); ok && a.Tok == token.ASSIGN {
					for _, left := range a.Lhs {
						assigned[left] = true
					}
				}
				return true
			})
		}
		for selector, selection := range selections {
			if selection.Kind() == types.FieldVal && !assigned[selector] {
				field := selected(selection)
				readers[field] = append(readers[field], p.ImportPath)
			}
		}
	}
	return readers
}

// selected returns the field that a selection ends at, also through embedded structs; nothing for unnamed structs.
func selected(s *types.Selection) string {
	of, last := s.Recv(), len(s.Index())-1
	for i, index := range s.Index() {
		if p, ok := of.Underlying().(*types.Pointer); ok {
			of = p.Elem()
		}
		field := of.Underlying().(*types.Struct).Field(index)
		if named, ok := types.Unalias(of).(*types.Named); ok && i == last {
			return named.Obj().Pkg().Path() + "." + named.Obj().Name() + "." + field.Name()
		}
		of = field.Type()
	}
	return ""
}

// goPackage is a package as go list describes it.
type goPackage struct {
	ImportPath, Dir, Export string
	DepOnly                 bool
	GoFiles, Deps           []string

	fileSet *token.FileSet
	files   []*ast.File
	imports types.Importer
}

// listPackages returns the packages of the module and all that they need, with compiled export data.
func listPackages(t *testing.T) []*goPackage {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,DepOnly,GoFiles,Deps", "./...")
	list.Dir, list.Stderr = "../..", os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []*goPackage
	exports := map[string]string{}
	fileSet := token.NewFileSet()
	imports := importer.ForCompiler(fileSet, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := &goPackage{fileSet: fileSet, imports: imports}
		if err := decoder.Decode(p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		all = append(all, p)
	}
}

// check parses and type-checks the package, and returns what selects a field or method.
func (p *goPackage) check(t *testing.T) map[*ast.SelectorExpr]*types.Selection {
	t.Helper()
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(p.fileSet, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		p.files = append(p.files, file)
	}
	info := &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}}
	if _, err := (&types.Config{Importer: p.imports}).Check(p.ImportPath, p.fileSet, p.files, info); err != nil {
		t.Fatal(err)
	}
	return info.Selections
}
