package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// declared is a name that Go code declares.
type declared struct {
	name string
	line int
}

// declaredNames returns the names of packages, types, functions, fields, parameters, labels and variables.
func declaredNames(set *token.FileSet, syntax *ast.File) []declared {
	var found []declared
	add := func(idents ...*ast.Ident) {
		for _, ident := range idents {
			if ident != nil {
				found = append(found, declared{ident.Name, set.Position(ident.Pos()).Line})
			}
		}
	}
	addIdents := func(expressions ...ast.Expr) {
		for _, expression := range expressions {
			if ident, ok := expression.(*ast.Ident); ok {
				add(ident)
			}
		}
	}
	ast.Inspect(syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.File:
			add(n.Name)
		case *ast.ImportSpec:
			add(n.Name)
		case *ast.FuncDecl:
			add(n.Name)
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.ValueSpec:
			add(n.Names...)
		case *ast.Field:
			add(n.Names...)
		case *ast.LabeledStmt:
			add(n.Label)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				addIdents(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				addIdents(n.Key, n.Value)
			}
		}
		return true
	})
	return found
}

var nameParts = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)

// spell writes a name as its words, each between two spaces: " let go " for letGo and LetGo.
func spell(name string) string {
	return " " + strings.ToLower(strings.Join(nameParts.FindAllString(name, -1), " ")) + " "
}
