package document_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"colonnade/fleet/document"
)

// compiledSchema compiles the schema, which fails unless it is a schema of the draft that it names.
var compiledSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	text, err := document.Schema()
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("documents.json", document); err != nil {
		return nil, err
	}
	return compiler.Compile("documents.json")
})

// checkBySchema returns an error unless the schema accepts a document.
func checkBySchema(t testing.TB, key string, value []byte) error {
	t.Helper()
	schema, err := compiledSchema()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := document.ParseTree(value)
	if err != nil {
		return err // nothing that a schema could look at
	}
	tree["key"] = key
	text, err := json.Marshal(tree)
	if err != nil {
		return err // an infinite number
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(instance)
}

// The schema accepts what the decoder accepts, so that an editor does not object to a good document. The tests and fuzz
// targets of the decoder check the same for their documents.
func TestSchemaAcceptsSamples(t *testing.T) {
	files, err := filepath.Glob("../../deploy/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		docs, err := document.SplitFile(data)
		if err != nil || len(docs) == 0 {
			t.Errorf("%s: %d documents, %v", name, len(docs), err)
		}
		for _, d := range docs {
			if err := document.Check(d.Key, d.Value); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := checkBySchema(t, d.Key, d.Value); err != nil {
				t.Errorf("%s: %s: %v", name, d.Key, err)
			}
		}
	}
}
