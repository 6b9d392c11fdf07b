package fleet_test

import (
	"fmt"
	"slices"
	"testing"

	"colonnade/fleet/document"
)

func TestDangling(t *testing.T) {
	whole := map[string]string{
		"defaults":          "model: {routing: {steps: [{regions: [weur]}]}}",
		"models/a":          "pool: p\naliases: [b]",
		"models/c":          "pool: p\nrouting: {steps: [{colos: [ams]}, {}]}",
		"colos/ams":         "region: weur",
		"endpoints/ams/one": "url: http://h:1\npool: p\nnames: {a: x}",
		"servers/ams/s":     `{address: "h:1", boot: x}`,
		"accounts/acme":     "models: [a]",
		"accounts/none":     "models: []",
		"pools/p":           "{}",
	}
	f := func(change map[string]string, want ...string) {
		t.Helper()
		docs := document.NewSet()
		for _, set := range []map[string]string{whole, change} {
			for key, value := range set {
				if value == "" {
					docs.Delete(key, 2)
				} else if err := docs.Put(key, []byte(value), 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		var got []string
		for _, d := range docs.Table().Dangling() {
			got = append(got, fmt.Sprintf("%s %s %s needs %s", d.Document, d.Field, d.Value, d.Missing))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v\n got %q\nwant %q", change, got, want)
		}
	}
	f(nil)
	f(map[string]string{"endpoints/ams/one": ""}, "models/a pool p needs endpoints", "models/c pool p needs endpoints")
	f(map[string]string{"colos/ams": ""},
		"endpoints/ams/one  ams needs colos", "models/a routing.steps[0].regions weur needs colos",
		"models/c routing.steps[0].colos ams needs colos", "servers/ams/s  ams needs colos")
	f(map[string]string{"models/a": "pool: q", "models/c": "pool: q", "endpoints/ams/two": "url: http://h:2\npool: p"},
		"endpoints/ams/one pool p needs models", "models/a pool q needs endpoints", "models/c pool q needs endpoints")
	f(map[string]string{"accounts/acme": "models: [a, b, gone]", "endpoints/ams/one": "url: http://h:1\npool: p\nnames: {gone: x}"},
		"accounts/acme models b needs models", "accounts/acme models gone needs models", "endpoints/ams/one names gone needs models")
	f(map[string]string{"models/a": "pool: p\nrouting: {algorithm: random, steps: [{colos: [gone]}]}"})
}
