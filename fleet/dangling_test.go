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
	f(map[string]string{"models/a": "pool: p\nrouting: {algorithm: random, steps: [{colos: [gone]}]}"},
		"models/a routing.algorithm random needs models")
}

// Fallbacks that lead nowhere, to the model itself, to sessions or unawares out of the fleet are named.
func TestDanglingFallbacks(t *testing.T) {
	set := document.NewSet()
	for key, value := range map[string]string{
		"models/a": "pool: p\naliases: [other]\nfallback: [b, gone, other, r, away, {external: far}]", "models/b": "pool: p", "models/r": "pool: p\ntype: realtime",
		"models/away": "pool: q", "models/far": "pool: q", "colos/ams": "{}", "endpoints/ams/one": "url: http://h:1\npool: p",
		"endpoints/ams/two": "url: http://h:2\npool: q\nexternal: true",
	} {
		if err := set.Put(key, []byte(value), 1); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, d := range set.Table().Dangling() {
		got = append(got, fmt.Sprintf("%s %s needs %s: %s", d.Field, d.Value, d.Missing, d.Reason))
	}
	want := []string{
		"fallback gone needs models: there is no model of this name; there are: away, b, far, r",
		"fallback other needs models: this is the model itself, so the entry has no effect",
		"fallback r needs models: realtime sessions have no fallbacks, so the entry has no effect",
		"fallback away needs accounts: an endpoint of the model is external, so accounts without allow_external get only its other endpoints: write {external: away} if it has none",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Each part of a step and of a flow that nothing meets is named, with what there is.
func TestDanglingRouting(t *testing.T) {
	whole := []string{
		"colos/ams", "region: weur\nlabels: {gpu: h100, tier: gold}", "colos/fra", "region: weur\nlabels: {gpu: a100}", "colos/iad", "region: enam",
		"entries/edge", "address: h:1\nregion: apac", "endpoints/ams/one", "url: http://h:1\npool: p",
	}
	f := func(docs []string, want ...string) {
		t.Helper()
		set := document.NewSet()
		for _, all := range [][]string{whole, docs} {
			for i := 0; i < len(all); i += 2 {
				if err := set.Put(all[i], []byte(all[i+1]), 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		var got []string
		for _, d := range set.Table().Dangling() {
			got = append(got, fmt.Sprintf("%s %s %s needs %s: %s", d.Document, d.Field, d.Value, d.Missing, d.Reason))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v\n got %q\nwant %q", docs, got, want)
		}
	}
	steps := func(steps string) []string {
		return []string{"models/m", "pool: p\nrouting: {steps: [{}, " + steps + "]}"}
	}
	f(steps("{within: 20ms, labels: {gpu: h100}}, {colos: [iad], regions: [weur], pick: weighted, weights: {ams: 3, iad: 0}}"))
	f(steps("{colos: [nyc]}"), "models/m routing.steps[1].colos nyc needs colos: there is no colo of this name; there are: ams, fra, iad")
	f(steps("{regions: [apac]}"), "models/m routing.steps[1].regions apac needs colos: no colo is in this region; there are: enam, weur")
	f(steps("{labels: {gpu: l40}}"), "models/m routing.steps[1].labels.gpu l40 needs colos: no colo has this label; there are: a100, h100")
	f(steps("{labels: {disk: ssd}}"), "models/m routing.steps[1].labels.disk ssd needs colos: no colo has this label; there is none")
	f(steps("{labels: {gpu: a100, tier: gold}}"),
		"models/m routing.steps[1] label gpu: a100; label tier: gold needs colos: no colo meets all of this, so the step has no effect")
	f(steps("{colos: [fra], regions: [enam], labels: {tier: gold}}"),
		"models/m routing.steps[1] colos fra; regions enam; label tier: gold needs colos: no colo meets all of this, so the step has no effect")
	f(steps("{pick: weighted, weights: {ams: 1, nyc: 2}}"), "models/m routing.steps[1].weights nyc needs colos: there is no colo of this name; there are: ams, fra, iad")
	f(steps("{regions: [weur], pick: weighted, weights: {ams: 1, iad: 2}}"),
		"models/m routing.steps[1].weights iad needs colos: the step does not select this colo; it selects by regions weur")
	f([]string{"models/m", "pool: p\nrouting: {steps: []}"}, "models/m routing.steps [] needs models: without a step, no request is sent to any colo")

	model := func(algorithm string) []string {
		return []string{"models/m", "pool: p\nrouting: {algorithm: " + algorithm + "}"}
	}
	flow := func(regions string) []string { return append(model("flow"), "flows/m", "regions: "+regions) }
	f(model("latency"))
	f(model("latency, steps: [{}]"),
		"models/m routing.algorithm latency needs models: routing.steps has no effect with this algorithm; take it out, or write algorithm: steps")
	f(model("latency, steps: []"))
	f(append(model("latency"), "defaults", "model: {routing: {algorithm: random, steps: [{}]}}"))
	f([]string{"models/m", "pool: p\nrouting: {steps: [{}]}", "defaults", "model: {routing: {algorithm: random}}"},
		"models/m routing.algorithm random needs models: routing.steps has no effect with this algorithm; take it out, or write algorithm: steps")
	f(model("flow"), "models/m routing.algorithm flow needs flows: there is no document flows/m, so colos are tried by their distance")
	f(flow("{weur: {ams: 3, fra: 1}, apac: {iad: 1}, '*': {iad: 1}}"))
	f(flow("{afri: {ams: 3}}"), "flows/m regions afri needs colos: no entry and no colo is in this region; there are: apac, enam, weur")
	f(flow("{weur: {ams: 3, nyc: 1}}"), "flows/m regions.weur nyc needs colos: there is no colo of this name; there are: ams, fra, iad")
	f([]string{"models/m", "pool: p", "flows/gone", "regions: {weur: {ams: 1}}"},
		"flows/gone  gone needs models: there is no document models/gone (aliases do not count here), so the flow has no effect")
	f(append(model("latency"), "flows/m", "regions: {weur: {ams: 1}}"),
		"flows/m  m needs models: models/m has routing.algorithm: latency, so the flow has no effect; it needs algorithm: flow")
	f(append(steps("{colos: [z]}"), "colos/c1", "{}", "colos/c2", "{}", "colos/c3", "{}", "colos/c4", "{}", "colos/c5", "{}", "colos/c6", "{}"),
		"models/m routing.steps[1].colos z needs colos: there is no colo of this name; there are: ams, c1, c2, c3, c4, c5, c6, fra and 1 more")
}
