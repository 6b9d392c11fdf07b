package document

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"

	"colonnade/fleet"
)

// source is the file with the fields of the defaults document.
//
//go:embed defaults.go
var source embed.FS

// fieldComments returns the comments of the fields of all structs in the source, each as one line, by type and field,
// such as "Queue.MaxWait".
func fieldComments() (map[string]string, error) {
	comments := map[string]string{}
	for _, files := range []fs.FS{fleet.Source, source} {
		if err := addFiles(comments, files); err != nil {
			return nil, fmt.Errorf("cannot read the comments of fields: %w", err)
		}
	}
	return comments, nil
}

func addFiles(comments map[string]string, files fs.FS) error {
	names, err := fs.Glob(files, "*.go")
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		addFields(comments, file)
	}
	return nil
}

func addFields(comments map[string]string, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if structure, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range structure.Fields.List {
				for _, name := range field.Names {
					comments[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
				}
			}
		}
		return false
	})
}
