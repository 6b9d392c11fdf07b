package files

import (
	"path/filepath"
	"strings"
)

// jsonFile is the extension of files that hold one JSON document.
const jsonFile = ".json"

// place returns the file for a new document: the path itself if that is a file, else the one YAML file of the directory that holds
// documents of its kind. If there is none, or several, it is the file that is named after the kind, such as models.yaml.
func (e *edit) place(key string) string {
	if e.isFile {
		return e.path
	}
	found := map[string]bool{}
	for _, d := range e.docs {
		if kindOf(d.Key) == kindOf(key) && filepath.Ext(d.File) != jsonFile {
			found[d.File] = true
		}
	}
	if len(found) == 1 {
		for file := range found {
			return file
		}
	}
	return filepath.Join(e.path, kindOf(key)+".yaml")
}

// kindOf returns the kind in a document's key.
func kindOf(key string) string {
	kind, _, _ := strings.Cut(key, "/")
	return kind
}

// compareFiles orders files as a directory lists them.
func compareFiles(a, b source) int { return strings.Compare(a.file, b.file) }
