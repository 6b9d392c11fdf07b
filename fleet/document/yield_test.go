package document

import (
	"fmt"
	"slices"
	"testing"
)

// A document that yields loses its claims to others, and keeps its place in the sorted lists.
func TestYieldingDocumentLosesItsClaims(t *testing.T) {
	d := NewSet()
	put := func(key, text string) {
		t.Helper()
		if err := d.Put(key, []byte(text), 1); err != nil {
			t.Fatal(err)
		}
	}
	put("models/a", "{aliases: [x]}")
	put("models/b", "{aliases: [x]}")
	put("models/c", "{}")
	for _, id := range []string{"a", "b", "c"} {
		put("endpoints/ams/"+id, "{url: 'http://"+map[string]string{"a": "h", "b": "h", "c": "other"}[id]+"', pool: p}")
		put("servers/ams/"+id, "{address: 'h:1', boot: b}")
		put("accounts/"+id, "{}")
		put("entries/"+id, "{address: 'h:1'}")
		put("colos/"+id, "{}")
	}
	want := func(alias, servers, endpoints string) {
		t.Helper()
		table := d.Table()
		if m, _ := table.Model("x"); m.Name != alias {
			t.Errorf("alias leads to %s, want %s", m.Name, alias)
		}
		names := map[string][]string{}
		for _, m := range table.Models() {
			names["models"] = append(names["models"], m.Name)
		}
		for _, a := range table.Accounts() {
			names["accounts"] = append(names["accounts"], a.Name)
		}
		for _, c := range table.Colos() {
			names["colos"] = append(names["colos"], c.Name)
		}
		var nodes []string
		for _, s := range table.Servers("ams") {
			nodes = append(nodes, s.Node)
		}
		if fmt.Sprint(nodes) != servers {
			t.Errorf("servers %v, want %s", nodes, servers)
		}
		for what, got := range names {
			if !slices.Equal(got, []string{"a", "b", "c"}) {
				t.Errorf("%s %q", what, got)
			}
		}
		var all, inPool []string
		for _, e := range table.EndpointsOf("ams") {
			all = append(all, e.ID)
		}
		for _, e := range table.Endpoints("ams", "p") {
			inPool = append(inPool, e.ID)
		}
		if fmt.Sprint(all) != endpoints || fmt.Sprint(inPool) != endpoints {
			t.Errorf("endpoints %v, in their pool %v, want %s", all, inPool, endpoints)
		}
	}
	want("a", "[a b c]", "[a c]")
	for _, key := range d.Keys() {
		if key[len(key)-1] == 'a' {
			d.Yield(key)
		}
	}
	want("b", "[b c]", "[b c]")
	put("models/a", "{aliases: [x]}")
	want("a", "[b c]", "[b c]")
	put("endpoints/ams/a", "{url: 'http://h', pool: p}")
	put("servers/ams/a", "{address: 'h:1', boot: b}")
	want("a", "[a b c]", "[a c]")
	d.Delete("endpoints/ams/a", 2)
	d.Delete("servers/ams/a", 2)
	put("endpoints/ams/a", "{url: 'http://h', pool: p}")
	put("servers/ams/a", "{address: 'h:1', boot: b}")
	want("a", "[a b c]", "[b c]") // it claims anew
}
