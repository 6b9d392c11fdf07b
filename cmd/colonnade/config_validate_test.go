package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	f := func(file string, good bool, want ...string) {
		t.Helper()
		r := run(t, file, "config", "validate", "-")
		if good {
			r.want(t, want...)
		} else {
			r.fail(t, want...)
		}
		if lines := strings.Count(r.out, "\n"); good && lines != len(want) {
			t.Errorf("%d lines, want %d:\n%s", lines, len(want), r.out)
		}
	}
	const whole = "key: models/a\npool: p\n---\nkey: colos/ams\nregion: weur\n---\nkey: endpoints/ams/x\nurl: http://h:1\npool: p\n"
	f(whole, true, "3 documents valid, 0 errors, 0 warnings\n")
	f("key: pools/x\nqueue: {limit: -3}\n---\nkey: pools/y\nodd: 1\n---\nkey: pools/z\n", false,
		"error: standard input: pools/x: queue.limit: -3: must be at least 0\n", "error: standard input: pools/y: odd: unknown field", "1 document valid, 2 errors, 0 warnings")
	f("key: pools/x\n---\nkey: pools/x\n---\nx: 1\n", false, "pools/x: duplicate key (first in standard input)", "document 3 of the file (from line 4)",
		"1 document valid, 2 errors, 0 warnings")
	// Sinks.
	sink := func(name, url string) string { return "key: sinks/" + name + "\nurl: " + url + "\n---\n" }
	f(sink("a", "kafak://h/t")+sink("b", "http://u:hidden@h/t")+sink("c", "postgres://h/t")+sink("d", "http://h/in?auth=basic")+sink("e", "file:/etc/x")+
		sink("f", "http://h/in\ncredential: hidden")+sink("g", "otlp://h?auth=bearer\ncredential: env:COLONNADE_CREDENTIAL_X")+sink("h", "file:e.jsonl"), false,
		`error: standard input: sinks/a: url: unknown scheme "kafak": use one of file, unix, http`, "sinks/b: url: has a password", "use credential=env:NAME",
		"sinks/c: url: nodes cannot open sinks of the scheme postgres", "run `colonnade ship -data-dir DIR -sink postgres:", "sinks/d: auth=basic: there is no credential: add credential=env:NAME",
		"sinks/e: url: a file in a document is relative", "sinks/f: credential: must be env:COLONNADE_CREDENTIAL_NAME", "2 documents valid, 6 errors, 0 warnings")
	// Conflicts.
	f(whole+"---\nkey: endpoints/ams/y\nurl: http://h:1/v1\npool: p\n", false,
		`error: endpoints/ams/y: url: "http://h:1": not in force, since endpoints/ams/x has the same url`, "4 documents valid, 1 error, 0 warnings")
	hash := strings.Repeat("ab", 32)
	f("key: keys/k1\naccount: a\nsha256: \""+hash+"\"\n---\nkey: keys/k2\naccount: b\nsha256: \""+hash+"\"\n", false,
		`error: keys/k2: key: "k2": not in force, since keys/k1 has the same key`)
	f(whole+"---\nkey: models/b\npool: p\naliases: [a]\n", true,
		`warning: models/b: aliases: "a": requests for it go to models/a, which has the same name or alias`, "4 documents valid, 0 errors, 1 warning")
	// References that lead nowhere.
	f(whole+"---\nkey: models/b\npool: q\nrouting: {steps: [{regions: [eeur], colos: [fra]}]}\n", true,
		`warning: models/b: pool: "q": no endpoint is in this pool, so the model cannot be served`,
		`warning: models/b: routing.steps[0].colos: "fra": there is no colo of this name`,
		`warning: models/b: routing.steps[0].regions: "eeur": no colo is in this region`, "3 warnings")
	f(whole+"---\nkey: endpoints/fra/x\nurl: http://h:1\npool: p\n", true,
		"warning: endpoints/fra/x: there is no document colos/fra, so no request is sent to this colo", "1 warning")
	// Routing that leads nowhere.
	routed := func(routing string) string { return whole + "---\nkey: models/b\npool: p\nrouting: " + routing + "\n" }
	f(routed("{steps: [{within: 0s}]}"), false, `error: standard input: models/b: routing.steps[0].within: "0s": must be at least 1ms`)
	f(routed("{algorithm: nearest}"), false, `error: standard input: models/b: routing.algorithm: "nearest": must be one of steps, random, latency, flow`)
	f(routed("{steps: [{labels: {gpu: h100}}]}"), true,
		`warning: models/b: routing.steps[0].labels.gpu: "h100": no colo has this label; there is none`, "4 documents valid, 0 errors, 1 warning")
	f(routed("{algorithm: random, steps: [{colos: [fra]}]}"), true,
		`warning: models/b: routing.algorithm: "random": routing.steps has no effect with this algorithm`, "1 warning")
	f(routed("{algorithm: flow}"), true, "not checked: references to flows, of which the files have none", "0 warnings")
	f(routed("{algorithm: flow}")+"---\nkey: flows/c\nregions: {weur: {ams: 1, fra: 1}, eeur: {ams: 1}}\n", true,
		"warning: flows/c: there is no document models/c (aliases do not count here), so the flow has no effect",
		`warning: flows/c: regions: "eeur": no entry and no colo is in this region; there are: weur`,
		`warning: flows/c: regions.weur: "fra": there is no colo of this name; there are: ams`,
		`warning: models/b: routing.algorithm: "flow": there is no document flows/b, so colos are tried by their distance`, "5 documents valid, 0 errors, 4 warnings")
	f(whole+"---\nkey: colos/pole\nposition: {lat: 91, lon: 0}\n", false, "error: standard input: colos/pole: position.lat: 91: must be at most 90")
	// Lower bands that are never promoted.
	f("key: pools/p\nqueue: {max_wait: 3s, promote_after: 3s}\n", true,
		`warning: pools/p: queue.promote_after: "3s": no request waits that long, since max_wait is 3s`, "1 document valid, 0 errors, 1 warning")
	f("key: pools/p\nqueue: {max_wait: 3s}\n---\nkey: pools/q\nqueue: {max_wait: 0s, promote_after: 3s}\n", true, "2 documents valid, 0 errors, 0 warnings")
	// Prices that cannot be compared.
	models := func(pool string, costs ...string) (documents string) {
		for i, cost := range costs {
			documents += fmt.Sprintf("key: models/%c\npool: p\n%s\n---\n", 'a'+i, cost)
		}
		return documents + "key: pools/p\nqueue: " + pool + "\n"
	}
	const none, dear, cheap, free = "", "cost: {unit: eur, input: 2, output: 6, per: 1000}", "cost: {unit: eur, output: 1, per: 1000}",
		"cost: {unit: eur, input: 0, per: 1000}"
	const unserved = "not checked: references to endpoints"
	const usd = "cost: {unit: usd, input: 2, output: 6, per: 1000}"
	f(models("{}", dear, none), true, `warning: pools/p: queue.cost: "tokens": priced in "eur": a; without a price, so that an input token costs 1 and an output token 2: b; `+
		`accounts' shares are then computed in different units: give all models of the pool a cost, with its per and in one unit`,
		unserved, "3 documents valid, 0 errors, 1 warning")
	f(models("{}", none, dear, free, cheap), true, `: b, d; without a price`, unserved, "1 warning")
	f(models("{}", dear, usd, cheap), true, `priced in "eur": a, c; in another unit: b ("usd"); accounts`, unserved, "1 warning")
	f(models("{}", dear, cheap), true, unserved, "0 warnings")
	f(models("{}", none, free), true, unserved, "0 warnings")
	f(models("{cost: requests}", dear, none), true, unserved, "0 warnings")
	f(models("{discipline: fifo}", dear, none), true, unserved, "0 warnings")
	f("key: models/a\npool: p\n"+dear+"\n---\nkey: models/b\npool: q\n", true, unserved, "0 warnings")
	f("key: models/a\npool: p\n"+dear+"\n---\nkey: models/b\npool: p\n", true, "warning: pools/p: queue.cost", unserved, "2 documents valid, 0 errors, 1 warning")
	// A file with a part of a fleet.
	f("key: models/a\nrouting: {steps: [{colos: [ams]}]}\n", true, "not checked: references to colos, endpoints, of which the files have none", "1 document valid, 0 errors, 0 warnings")
}

func TestValidateNamesFiles(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml")
	for name, text := range map[string]string{one: "key: pools/x\n", two: "key: pools/x\n---\nkey: pools/y\nqueue: {limit: no}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "", "config", "validate", one, two, dir+"/three.yaml").fail(t, "error: "+two+": pools/x: duplicate key (first in "+one+")",
		"error: "+two+": pools/y: queue.limit: ", "three.yaml: no such file", "1 document valid, 3 errors")
	run(t, "", "config", "validate", "../../deploy/fleet.yaml").want(t, "documents valid, 0 errors, 0 warnings")
}

func TestConfigSchema(t *testing.T) {
	run(t, "", "config", "schema").want(t, `"$schema": "https://json-schema.org/draft/2020-12/schema"`, `"models/<model>"`)
}
