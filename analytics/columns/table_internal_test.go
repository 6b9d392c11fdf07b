package columns

import (
	"maps"
	"strings"
	"testing"
)

func TestMissing(t *testing.T) {
	typeOf := func(c Column) string { return string(c.Type) }
	complete := map[string]string{}
	for _, c := range all {
		complete[c.Name] = typeOf(c)
	}
	with := func(change func(map[string]string)) map[string]string {
		m := maps.Clone(complete)
		change(m)
		return m
	}
	newer := append([]Column{}, all...)
	newer[len(newer)-1].Since = 2 // as though the last column had come with version 2
	last := newer[len(newer)-1].Name
	withoutLast := with(func(m map[string]string) { delete(m, last) })

	f := func(comment string, have map[string]string, add, problem string) {
		t.Helper()
		got, err := Table{comment, have}.missing(newer, typeOf)
		if problem != "" {
			if err == nil || !strings.Contains(err.Error(), problem) {
				t.Errorf("%q: got %v, want %q", comment, err, problem)
			}
			return
		}
		if err != nil || strings.Join(Names(got), " ") != add {
			t.Errorf("%q: got %q, %v; want %q", comment, Names(got), err, add)
		}
	}
	f("", complete, "", "")
	f("Events of Colonnade, schema 1", withoutLast, last, "")
	f("Events of Colonnade, schema 2", withoutLast, "", "columns are missing: "+last)
	f("", withoutLast, "", "columns are missing: "+last)
	f("our table", withoutLast, "", "columns are missing: "+last)
	f("Events of Colonnade, schema 9", with(func(m map[string]string) { m["later"] = "text" }), "", "")
	f("", with(func(m map[string]string) { m["time"] = "text"; m["cost"] = "integer" }), "", "time is text and must be time, cost is integer and must be number")
	f("Events of Colonnade, schema 1", map[string]string{"id": "integer"}, "", "columns are missing: event_id, request_id, client_request_id, trace_id, kind, and 39 others")
}
