package document_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/docpage"
)

// TestDocumentsPage compares the generated parts of the reference page with the code; see package docpage.
func TestDocumentsPage(t *testing.T) { docpage.Check(t, "docs/documents.md", pageParts(t)) }

// pageParts returns the generated parts of the page by name.
func pageParts(t *testing.T) map[string]string {
	t.Helper()
	root, err := document.DocumentSchema()
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{"engines": engineTable(t), "unsupported": unsupportedFields()}
	kinds := map[string]bool{}
	for _, condition := range root.AllOf {
		kinds[definition(condition.Then.Ref)] = true
	}
	var values strings.Builder
	values.WriteString("| value | accepted |\n| --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(root.Defs)) {
		def := root.Defs[name]
		switch {
		case kinds[name]:
			parts["fields: "+name] = fieldTable(t, def)
		case !strings.HasSuffix(name, "-defaults"):
			fmt.Fprintf(&values, "| %s | %s |\n", name, def.Description)
		}
	}
	parts["values"] = values.String()
	return parts
}

func definition(ref string) string { return strings.TrimPrefix(ref, "#/$defs/") }

func fieldTable(t *testing.T, kind *document.SchemaPart) string {
	t.Helper()
	var out strings.Builder
	out.WriteString("| field | type | default | meaning |\n| --- | --- | --- | --- |\n")
	writeFields(t, &out, "", kind)
	return out.String()
}

// writeFields writes a line for each field of a map, each followed by the fields below it.
func writeFields(t *testing.T, out *strings.Builder, above string, of *document.SchemaPart) {
	t.Helper()
	for _, p := range of.Properties {
		name := above + p.Name
		if name == "key" || name == "version" && p.Schema.Type == "integer" { // of every document
			continue
		}
		meaning, absent, _ := strings.Cut(strings.TrimSuffix(p.Schema.Description, "."), ". Default: ")
		if absent == "" {
			absent = defaultOf(t, p.Schema)
		}
		if slices.Contains(of.Required, p.Name) {
			absent = "required"
		}
		if meaning == "" {
			t.Errorf("the field %s has no comment that describes it", name)
		}
		fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", name, typeName(p.Schema), absent, meaning)
		if below := p.Schema.Items; below != nil {
			writeFields(t, out, name+"[].", below)
		}
		writeFields(t, out, name+".", p.Schema)
	}
}

// defaultOf returns the built-in default of a field in words.
func defaultOf(t *testing.T, s *document.SchemaPart) string {
	t.Helper()
	switch {
	case s.Default != nil:
		text, err := json.Marshal(s.Default)
		if err != nil {
			t.Fatal(err)
		}
		return "`" + strings.ReplaceAll(strings.ReplaceAll(strings.Trim(string(text), `"`), `"`, ""), ":", ": ") + "`"
	case s.Type == "boolean":
		return "`false`"
	case len(s.Properties) > 0 || strings.HasSuffix(s.Ref, "-defaults"):
		return ""
	}
	return "none"
}

// typeName returns the type of a field in words.
func typeName(s *document.SchemaPart) string {
	switch values, isMap := s.Additional.(*document.SchemaPart); {
	case s.Ref != "":
		return strings.ReplaceAll(definition(s.Ref), "-defaults", " fields")
	case len(s.AnyOf) > 0:
		var all []string
		for _, one := range s.AnyOf {
			all = append(all, typeName(one))
		}
		return strings.Join(all, ", or ")
	case s.Const != nil:
		return fmt.Sprintf("`%v`", s.Const)
	case len(s.Enum) > 0:
		return "`" + strings.Join(s.Enum, "`, `") + "`"
	case s.Items != nil:
		return "list: " + typeName(s.Items)
	case isMap && len(s.PropertyNames.Enum) > 0:
		return "map: engine → " + typeName(values)
	case isMap:
		return "map: " + typeName(s.PropertyNames) + " → " + typeName(values)
	}
	text := map[string]string{"integer": "whole number", "number": "number", "boolean": "`true`, `false`", "string": "text", "object": "map"}[s.Type]
	switch {
	case s.Maximum != "":
		text += fmt.Sprintf(", %s to %s", s.Minimum, s.Maximum)
	case s.Minimum != "":
		text += fmt.Sprintf(", at least %s", s.Minimum)
	}
	return text
}

// engineTable shows the endpoints of an otherwise empty fleet.
func engineTable(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	out.WriteString("| engine | `concurrency` | `health` | `metrics.path` |\n| --- | --- | --- | --- |\n")
	for _, engine := range fleet.Engines {
		e := documents(t, "endpoints/ams/e", endpointHead+"engine: "+engine).Table().EndpointsOf("ams")[0]
		metrics := "none"
		if e.Metrics.Path != "" {
			metrics = "`" + e.Metrics.Path + "`"
		}
		fmt.Fprintf(&out, "| `%s` | %d | `{path: %s, interval: %s, timeout: %s, silence: %s}` | %s |\n",
			engine, e.Concurrency, e.Health.Path, e.Health.Interval, e.Health.Timeout, e.Health.Silence, metrics)
	}
	return out.String()
}

// unsupportedFields lists the fields that are refused by name.
func unsupportedFields() string {
	out := []string{"| document | field | instead |", "| --- | --- | --- |"}
	var walk func(kind fleet.Kind, path string, t reflect.Type)
	walk = func(kind fleet.Kind, path string, t reflect.Type) {
		for field := range t.Fields() {
			if name := field.Tag.Get("unsupported"); name != "" {
				out = append(out, fmt.Sprintf("| `%s/…` | `%s%s` | %s |", kind, path, name, field.Tag.Get("instead")))
			}
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); field.Type.Kind() == reflect.Struct && name != "-" {
				walk(kind, path+name+".", field.Type)
			}
		}
	}
	walk(fleet.KindModel, "", reflect.TypeFor[fleet.Model]())
	walk(fleet.KindPool, "", reflect.TypeFor[fleet.Pool]())
	walk(fleet.KindColo, "", reflect.TypeFor[fleet.Colo]())
	walk(fleet.KindEndpoint, "", reflect.TypeFor[fleet.Endpoint]())
	walk(fleet.KindAccount, "", reflect.TypeFor[fleet.Account]())
	return strings.Join(out, "\n") + "\n"
}

// TestDocumentsPageExamples checks the documents on the page by the decoder and by the schema. Each kind has an example.
func TestDocumentsPageExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/documents.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, example := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		docs, err := document.SplitFile(example[1])
		if err != nil || len(docs) == 0 {
			t.Errorf("%s: %v", example[1], err)
		}
		for _, d := range docs {
			kind, _, _ := strings.Cut(d.Key, "/")
			kinds[kind] = true
			if err := document.Check(d.Key, d.Value); err != nil {
				t.Error(err)
			}
			if err := checkBySchema(t, d.Key, d.Value); err != nil {
				t.Errorf("%s: %v", d.Key, err)
			}
		}
	}
	root, err := document.DocumentSchema()
	if err != nil {
		t.Fatal(err)
	}
	for _, condition := range root.AllOf {
		if kind := definition(condition.Then.Ref); !kinds[kind] {
			t.Errorf("the page has no example of %s", kind)
		}
	}
}
