package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// passage is a piece of prose: a comment, a string in code, or a paragraph, a list item or a table cell of a page.
type passage struct {
	file string // path relative to the repository
	line int    // of its first character
	text string
}

// source is a file that a person reads: Go code or a page.
type source struct {
	name     string // path relative to the repository
	passages []passage
	names    []declared
}

// sources reads the Go files, with their tests, and the pages of the repository. It reads every directory in this process,
// so the go command sees when a cached result of the tests is stale; what go list reads, it does not see.
func sources() ([]source, error) {
	var found []source
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := entry.Name(); base != ".." && (strings.HasPrefix(base, ".") || base == "node_modules" || base == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if extension := filepath.Ext(name); extension != ".go" && extension != ".md" {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative := filepath.ToSlash(strings.TrimPrefix(name, root+string(filepath.Separator)))
		switch filepath.Ext(name) {
		case ".go":
			s, err := goSource(relative, content)
			found = append(found, s)
			return err
		case ".md":
			found = append(found, source{name: relative, passages: pagePassages(relative, string(content))})
		}
		return nil
	})
	return found, err
}

func goSource(name string, content []byte) (source, error) {
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	s := source{name: name, names: declaredNames(set, syntax)}
	for _, group := range syntax.Comments {
		s.passages = append(s.passages, commentPassages(set, group)...)
	}
	ast.Inspect(syntax, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(literal.Value); err == nil && strings.Contains(text, " ") {
			s.passages = append(s.passages, passage{name, set.Position(literal.Pos()).Line, text})
		}
		return true
	})
	return s, nil
}

// commentPassages splits a comment at its empty lines and leaves out code and directives.
func commentPassages(set *token.FileSet, group *ast.CommentGroup) []passage {
	var found []passage
	fresh := true
	for _, c := range group.List {
		at := set.Position(c.Pos())
		text := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(c.Text, "//"), "/*"), "*/")
		trimmed := strings.TrimLeft(text, " ")
		switch {
		case strings.HasPrefix(c.Text, "//") && text == trimmed && text != "", strings.HasPrefix(text, "\t"):
			fresh = true // a directive, or code
		case trimmed == "":
			fresh = true
		case fresh || strings.HasPrefix(trimmed, "- ") || strings.HasPrefix(trimmed, "# "):
			found = append(found, passage{at.Filename, at.Line, strings.TrimLeft(trimmed, "-# ")})
			fresh = false
		default:
			found[len(found)-1].text += "\n" + trimmed
		}
	}
	return found
}

var (
	codeSpan  = regexp.MustCompile("`[^`]*`")
	linkPlace = regexp.MustCompile(`\]\([^)]*\)`)
	blockHead = regexp.MustCompile(`^\s*(#+|[-*]|\d+\.)\s+`)
)

// pagePassages returns the prose of a Markdown page, without its code.
func pagePassages(name, content string) []passage {
	keepLines := func(s string) string { return "·" + strings.Repeat("\n", strings.Count(s, "\n")) }
	var lines []string
	fenced := false
	for line := range strings.Lines(content) {
		line = strings.TrimRight(line, "\n")
		fence := strings.HasPrefix(strings.TrimLeft(line, " "), "```")
		if fence || fenced || strings.HasPrefix(line, "    ") && (len(lines) == 0 || lines[len(lines)-1] == "") {
			lines = append(lines, "")
		} else {
			lines = append(lines, line)
		}
		fenced = fenced != fence
	}
	text := codeSpan.ReplaceAllStringFunc(strings.Join(lines, "\n"), keepLines)
	text = linkPlace.ReplaceAllStringFunc(text, keepLines)
	var found []passage
	fresh := true
	for i, line := range strings.Split(text, "\n") {
		head := blockHead.FindString(line)
		switch {
		case strings.TrimSpace(line) == "":
			fresh = true
		case strings.HasPrefix(line, "|"):
			for cell := range strings.SplitSeq(line, "|") {
				found = append(found, passage{name, i + 1, strings.TrimSpace(cell)})
			}
			fresh = true
		case fresh || head != "":
			found = append(found, passage{name, i + 1, strings.TrimSpace(line[len(head):])})
			fresh = strings.HasPrefix(line, "#")
		default:
			found[len(found)-1].text += "\n" + strings.TrimSpace(line)
		}
	}
	return slices.DeleteFunc(found, func(p passage) bool { return p.text == "" })
}
