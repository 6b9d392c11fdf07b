package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"colonnade/cmd/internal/command"
)

const smallFleet = `key: colos/ams
region: weur
---
# the base model
key: models/llama
pool: llama
---
key: models/qwen
pool: llama
---
key: endpoints/ams/gpu-1
url: http://10.0.0.7:8000
pool: llama
`

// exits checks the exit status that a command's error gives.
func (r ran) exits(t *testing.T, want int) ran {
	t.Helper()
	got := command.ExitStatus(r.err)
	if got != want {
		t.Errorf("exit status %d, want %d: %v\n%s%s", got, want, r.err, r.out, r.notes)
	}
	return r
}

// An operator who mistypes a pool gets a refusal; forced, the change is in the history with its author, and is undone by a rollback.
func TestMistypedPool(t *testing.T) {
	s := startEtcd(t)
	t.Setenv("COLONNADE_USER", "alice")
	run(t, smallFleet, "config", "apply", "-").want(t, "applied models/llama")
	before := stored(t, s, "models/llama")
	const mistyped = "key: models/llama\npool: lamma\n"

	run(t, mistyped, "config", "apply", "-").fail(t, "refused, and nothing was changed: it takes out of service: llama",
		`models/llama: pool: "lamma": no endpoint is in this pool`, "every request for llama gets 503", "-force")
	run(t, mistyped, "config", "apply", "-dry-run", "-").exits(t, 2).fail(t, "it takes out of service: llama")
	if got := stored(t, s, "models/llama"); got != before {
		t.Errorf("the document is %s", got)
	}
	run(t, mistyped, "config", "diff", "-").exits(t, 1).fail(t, "~ models/llama\n  ~ pool: llama → lamma\n")

	r := run(t, mistyped, "config", "apply", "-force", "-")
	r.want(t, "applied models/llama", "to undo it: colonnade config rollback ")
	undo := regexp.MustCompile(`rollback (\d+)`).FindStringSubmatch(r.notes)[1]
	run(t, "", "config", "history").want(t, "alice@", "~ models/llama", "colonnade config apply -force -", "+ colos/ams")
	run(t, "", "config", "rollback", "-dry-run", undo).exits(t, 1).fail(t, "~ pool: lamma → llama")
	run(t, "", "config", "rollback", undo).want(t, "applied models/llama")
	if got := stored(t, s, "models/llama"); got != before {
		t.Errorf("the document is %s, and was %s", got, before)
	}
	run(t, smallFleet, "config", "diff", "-").exits(t, 0).want(t, "no differences")
	run(t, smallFleet, "config", "apply", "-dry-run", "-").exits(t, 0).want(t, "no differences")

	const restyled = "# of ops\nkey: models/llama\npool: 'llama'\n---\nkey: models/qwen\npool: llama\n"
	run(t, restyled, "config", "diff", "-").exits(t, 0)
	run(t, restyled, "config", "apply", "-").want(t, "rewritten models/llama, unchanged in meaning: only comments or style differ\n", "unchanged models/qwen\n")
	newest := fmt.Sprint(revisionOf(t, s, "models/llama"))
	run(t, "", "config", "history", newest).want(t, "~ models/llama\n    (unchanged in meaning: only comments or style differ)\n")
	run(t, "", "config", "delete", "models/llama", "models/qwen", "-confirm").want(t)
	run(t, "key: models/llama\npool: llama\n", "config", "apply", "-").want(t)
	run(t, "", "config", "rollback", fmt.Sprint(revisionOf(t, s, "deletions"))).fail(t, "refused, and nothing was changed: it deletes the last of all models",
		"roll back to a newer REVISION", "or repeat this with -force")
}

// A model that is not served before, such as a new one, may be applied before its engines: the command says what is missing.
func TestApplyBeforeEngines(t *testing.T) {
	startEtcd(t)
	r := run(t, "key: colos/ams\n---\nkey: models/new\n---\nkey: pools/new\n", "config", "apply", "-")
	r.want(t, "applied models/new", `error: models/new: pool: "new": no endpoint is in this pool`)
	// A problem that was there before is not repeated.
	if r := run(t, "key: models/new\nbeta: true\n", "config", "apply", "-"); r.err != nil || r.notes != "" {
		t.Errorf("%v, %q", r.err, r.notes)
	}
	run(t, "", "config", "apply", "nowhere.yaml", "-dry-run").exits(t, 2)
	run(t, "", "config", "diff", "nowhere.yaml").exits(t, 2)
	run(t, "key: deletions\nconfirmed: 9\n", "config", "apply", "-").want(t, "left out: deletions")
}

// -prune deletes the documents that the files lack, of the kinds that they have, and no registration; more than half of a kind needs -force.
func TestPrune(t *testing.T) {
	s := startEtcd(t)
	run(t, smallFleet, "config", "apply", "-").want(t)
	put(t, s, map[string]string{"accounts/acme": "{}", "keys/laptop": apiKeyDocument("acme", "ab", ""), "models/old": "pool: llama", "servers/ams/s": `{"address":"h:1","boot":"x"}`})
	putLeased(t, s, "endpoints/ams/registered")
	run(t, smallFleet, "config", "diff", "-prune", "-").exits(t, 1).fail(t, "- models/old\n")
	run(t, smallFleet, "config", "apply", "-prune", "-").want(t, "unchanged models/llama", "deleted models/old\n")
	for key, stays := range map[string]bool{"models/old": false, "accounts/acme": true, "keys/laptop": true, "servers/ams/s": true, "models/qwen": true, "endpoints/ams/registered": true} {
		if got := stored(t, s, key) != ""; got != stays {
			t.Errorf("%s is there: %v", key, got)
		}
	}
	many := map[string]string{}
	for i := range 12 {
		many[fmt.Sprintf("pools/p%d", i)] = "{}"
	}
	put(t, s, many)
	file := "key: pools/llama\n"
	run(t, file, "config", "apply", "-prune", "-").fail(t, "refused, and nothing was changed: it deletes more than half of all pools")
	run(t, file, "config", "apply", "-prune", "-dry-run", "-").exits(t, 2).fail(t, "- pools/p0\n", "- pools/p11\n", "it deletes more than half of all pools")
	if stored(t, s, "pools/p0") == "" || stored(t, s, "pools/llama") != "" {
		t.Error("something was changed")
	}
	run(t, file, "config", "apply", "-prune", "-force", "-").want(t, "deleted pools/p11")
	if !strings.HasPrefix(stored(t, s, "deletions"), "confirmed: ") {
		t.Error("the deletions were not confirmed in the same transaction")
	}
}

// The export of a fleet, applied to an empty etcd, is the fleet with its API keys.
func TestExportRestores(t *testing.T) {
	s := startEtcd(t)
	run(t, smallFleet, "config", "apply", "-").want(t)
	key := strings.TrimSpace(run(t, "", "keys", "create", "-account", "acme", "-id", "laptop").want(t))
	put(t, s, map[string]string{"servers/ams/s": `{"address":"h:1","boot":"x"}`, "deletions": "confirmed: 5\n"})
	backup := run(t, "", "config", "export").want(t, "# the base model\n", "key: keys/laptop\n")
	if strings.Contains(backup, "deletions") || strings.Contains(backup, "servers/") || strings.Contains(backup, key) {
		t.Errorf("the backup is\n%s", backup)
	}
	want := meaning(t, s)
	other := startEtcd(t)
	run(t, backup, "config", "apply", "-").want(t, "applied keys/laptop")
	if got := meaning(t, other); storedKey(t, other, "laptop").SHA256 != storedKey(t, s, "laptop").SHA256 || withoutServers(got) != withoutServers(want) {
		t.Errorf("the restored fleet is\n%s\nwant\n%s", got, want)
	}
	run(t, backup, "config", "diff", "-prune", "-").exits(t, 0)
	put(t, other, map[string]string{"pools/bad": "queue: 1"})
	run(t, "", "config", "export").fail(t, "only a comment in the file: pools/bad")
	run(t, "", "config", "export", "models").fail(t, "ends with a slash")
}

// withoutServers takes the revision and the servers, which are not in a backup, out of a table.
func withoutServers(meaning string) string {
	return regexp.MustCompile(`(?m)^.*("revision"|"Revision"|"address"|"boot").*$`).ReplaceAllString(meaning, "")
}

// Of many who apply at once, each has applied its change or is refused with a reason, and what was applied stays.
func TestConcurrentAppliersLoseNothing(t *testing.T) {
	s := startEtcd(t)
	run(t, smallFleet, "config", "apply", "-").want(t)
	var applied, refused atomic.Int64
	var appliers sync.WaitGroup
	for n := range 8 {
		appliers.Go(func() {
			// Each has a model of its own; all change the same pool.
			doc := fmt.Sprintf("key: models/m%d\npool: llama\n---\nkey: pools/llama\nqueue: {limit: %d}\n", n, 100+n)
			r := run(t, doc, "config", "apply", "-")
			switch {
			case r.err == nil:
				applied.Add(1)
				if stored(t, s, fmt.Sprintf("models/m%d", n)) == "" {
					t.Errorf("applier %d has succeeded, and its model is not there", n)
				}
			case strings.Contains(r.err.Error(), "while this command ran") || strings.Contains(r.err.Error(), "all the time"):
				refused.Add(1)
				if stored(t, s, fmt.Sprintf("models/m%d", n)) != "" {
					t.Errorf("applier %d was refused, and its model is there", n)
				}
			default:
				t.Error(r.err)
			}
		})
	}
	appliers.Wait()
	if applied.Load() == 0 || applied.Load()+refused.Load() != 8 {
		t.Errorf("%d applied, %d refused", applied.Load(), refused.Load())
	}
}

// Commands that compare work on files, too; the history of files is that of git.
func TestChangesOfFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fleet.yaml"), []byte(smallFleet), 0o600); err != nil {
		t.Fatal(err)
	}
	const mistyped = "key: models/llama\npool: lamma\n"
	run(t, mistyped, "config", "diff", "-config", dir, "-").exits(t, 1).fail(t, "~ pool: llama → lamma")
	run(t, mistyped, "config", "apply", "-config", dir, "-").fail(t, "it takes out of service: llama")
	run(t, mistyped, "config", "apply", "-dry-run", "-force", "-config", dir, "-").exits(t, 1)
	if out := run(t, "", "config", "export", "-config", dir).want(t, "# the base model"); strings.Contains(out, "lamma") {
		t.Errorf("it was changed:\n%s", out)
	}
	run(t, "key: models/llama\npool: llama\n", "config", "apply", "-prune", "-config", dir, "-").want(t, "deleted models/qwen from ")
	run(t, "", "config", "history", "-config", dir).fail(t, "keep them in git")
	run(t, "", "config", "rollback", "-config", dir, "5").fail(t, "keep them in git")
}
