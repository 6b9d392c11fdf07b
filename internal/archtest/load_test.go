package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	root   = "../.." // of the repository
	module = "colonnade"
)

// pkg is a package of the repository, without its tests.
type pkg struct {
	path  string // relative to the repository
	files []file

	// Of the whole module.
	set      *token.FileSet
	importer types.Importer // nil for a package that imports nothing
}

// file is one Go file.
type file struct {
	name   string // path relative to the repository
	built  bool   // on this platform
	syntax *ast.File
}

// exports has the name of the compiled file of everything that a module imports, by import path.
type exports map[string]string

func (e exports) open(path string) (io.ReadCloser, error) { return os.Open(e[path]) }

// repository lists the packages of both modules, with their files for any platform. The result is shared: read it only.
var repository = sync.OnceValues(func() ([]pkg, error) {
	gateway, err := packagesOf(root)
	if err != nil {
		return nil, err
	}
	bench, err := packagesOf(filepath.Join(root, "bench"))
	return append(gateway, bench...), err
})

func loadRepository(t *testing.T) []pkg {
	t.Helper()
	packages, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// listed is what go list prints for one package.
type listed struct {
	Dir, ImportPath, Export string
	GoFiles, IgnoredGoFiles []string
	DepOnly                 bool
}

// packagesOf loads the packages of the module in a directory.
func packagesOf(dir string) ([]pkg, error) {
	command := exec.Command("go", "list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles,IgnoredGoFiles,DepOnly", "./...")
	command.Dir = dir
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list the packages of %s: %w\n%s", dir, err, stderr.Bytes())
	}
	var found []pkg
	compiled, set := exports{}, token.NewFileSet()
	imports := importer.ForCompiler(set, "gc", compiled.open)
	decoder := json.NewDecoder(bytes.NewReader(output))
	for {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, fmt.Errorf("cannot read what go list prints: %w", err)
		}
		compiled[l.ImportPath] = l.Export
		if l.DepOnly {
			continue
		}
		p, err := l.load(set, imports)
		if err != nil {
			return nil, err
		}
		if len(p.files) > 0 {
			found = append(found, p)
		}
	}
}

func (l listed) load(set *token.FileSet, imports types.Importer) (pkg, error) {
	p := pkg{path: strings.TrimPrefix(l.ImportPath, module+"/"), set: set, importer: imports}
	for i, name := range append(l.GoFiles, l.IgnoredGoFiles...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(l.Dir, name))
		if err != nil {
			return pkg{}, err
		}
		if err := p.add(name, content, i < len(l.GoFiles)); err != nil {
			return pkg{}, err
		}
	}
	return p, nil
}

func (p *pkg) add(name string, content []byte, built bool) error {
	name = p.path + "/" + name
	syntax, err := parser.ParseFile(p.set, name, content, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p.files = append(p.files, file{name: name, built: built, syntax: syntax})
	return nil
}

// parse makes a package of source text, for the tests of the rules. Its files are a.go, b.go and so on.
func parse(t *testing.T, path string, texts ...string) pkg {
	t.Helper()
	p := pkg{path: path, set: token.NewFileSet()}
	for i, text := range texts {
		if err := p.add(string(rune('a'+i))+".go", []byte(text), true); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// wantProblem expects no problem if want is empty, and otherwise one that contains want.
func wantProblem(t *testing.T, got []string, want string) {
	t.Helper()
	if want == "" && len(got) != 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
		t.Errorf("got %q, want one problem with %q", got, want)
	}
}
