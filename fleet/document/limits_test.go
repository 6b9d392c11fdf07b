package document_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"colonnade/fleet/document"
)

func TestLimits(t *testing.T) {
	f := func(value, want string) {
		t.Helper()
		err := document.Check("pools/p", []byte(value))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check of %.40q… = %v, want %q", value, err, want)
		}
	}
	f("a: "+strings.Repeat(" ", document.MaxSize), "at most 65536 are accepted")
	f("a: "+strings.Repeat("x", document.MaxText+1), "a text of 1025 bytes; at most 1024 are accepted")
	f("a: ["+strings.Repeat("1,", document.MaxList)+"1]", "a: 513 elements; at most 512 are accepted")
	f(`{"a": [`+strings.Repeat("1,", document.MaxList)+"1]}", "a: 513 elements; at most 512 are accepted")
	f("{"+manyFields(document.MaxList+1)+"}", "513 elements; at most 512 are accepted")
	f(nested(document.MaxDepth), "nested too deeply; at most 12 levels are accepted")
	f(nested(30000), "not valid YAML")
	f("a: "+nested(5000), "nested too deeply")
	f(`{"a":`+nested(5000)+`}`, "nested too deeply")
	f(strings.Repeat(`{"a":`, 30000)+"1"+strings.Repeat("}", 30000), "document")
	f("a: "+strings.Repeat("- ", 30000), "document")
}

// manyFields returns the fields of a map of whole numbers.
func manyFields(n int) string {
	var fields strings.Builder
	for i := range n {
		fmt.Fprintf(&fields, "f%d: 1,", i)
	}
	return fields.String()
}

func nested(depth int) string {
	return "{a: " + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}"
}

// Documents that would expand, or that are costly to parse, use little memory.
func TestMemoryOfHostileDocuments(t *testing.T) {
	lol := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 10; i++ {
		lol += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), i-1)
	}
	bombs := []string{
		lol,
		"a: &a [" + strings.Repeat("{b: c},", 7000) + "]\nd: [" + strings.Repeat("*a,", 56) + "]", // below the parser's own limit
		"a: &a {b: *a}",
		"a: &a {x: 1}\nb: {<<: *a}",
		"<<: {queue: {limit: 3}}",
		"a: &_ x\nb: *_",
		strings.Repeat("? ", 30000),
		strings.Repeat("&", 60000),
		strings.Repeat("{", 60000),
		strings.Repeat("[{a: ", 10000),
		strings.Repeat("!", 60000),
		"a: " + strings.Repeat("'", 60000),
		strings.Repeat("a:\n ", 15000),
		strings.Repeat("- ? ", 15000),
	}
	for _, bomb := range bombs {
		used := allocated(func() {
			if document.Check("pools/p", []byte(bomb)) == nil {
				t.Errorf("%.40q… is accepted", bomb)
			}
		})
		if used > 12<<20 {
			t.Errorf("%.40q… allocates %d bytes", bomb, used)
		}
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestYAMLAliasesAreRefused(t *testing.T) {
	err := document.Check("pools/p", []byte("a: &a {x: 1}\nb: *a"))
	if err == nil || !strings.Contains(err.Error(), "YAML anchors, aliases and merge keys are not accepted") {
		t.Errorf("got %v", err)
	}
	if err := document.Check("models/m", []byte(`{"upstream_name": "&a *a <<"}`)); err != nil {
		t.Errorf("the same signs in JSON: %v", err)
	}
}
