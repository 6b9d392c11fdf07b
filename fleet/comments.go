package fleet

import (
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
)

// sources are the files whose structs describe documents: the comments of their fields are the fields' documentation.
//
//go:embed account.go apikey.go auto.go colo.go deletions.go document.go endpoint.go model.go pool.go
var sources embed.FS

// fieldComments returns the comments of the fields of all structs in sources, each as one line, by type and field, such
// as "Queue.MaxWait".
func fieldComments(sources fs.FS) (map[string]string, error) {
	comments := map[string]string{}
	files, err := fs.Glob(sources, "*.go")
	for _, name := range files {
		var text []byte
		if text, err = fs.ReadFile(sources, name); err != nil {
			break
		}
		var file *ast.File
		if file, err = parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			break
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if structure, ok := spec.Type.(*ast.StructType); ok {
					addComments(comments, spec.Name.Name, structure)
				}
			}
			return true
		})
	}
	return comments, err
}

func addComments(comments map[string]string, structure string, t *ast.StructType) {
	for _, field := range t.Fields.List {
		for _, name := range field.Names {
			comments[structure+"."+name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
		}
	}
}
