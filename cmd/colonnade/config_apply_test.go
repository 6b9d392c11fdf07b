package main

import (
	"strings"
	"testing"
)

// Applying the document of an account does not touch its API keys.
func TestApplyKeepsKeys(t *testing.T) {
	s := startEtcd(t)
	const file = "../../deploy/two-regions.yaml"
	run(t, "", "config", "apply", file).want(t)
	run(t, "", "keys", "create", "-account", "assistant", "-id", "laptop", "-expires", "2999-01-31").want(t)
	want := stored(t, s, "keys/laptop")
	r := run(t, "", "config", "apply", file)
	r.want(t, "unchanged accounts/assistant")
	run(t, "key: accounts/assistant\nweight: 7\n", "config", "apply", "-").want(t, "applied accounts/assistant")
	run(t, "", "config", "delete", "accounts/assistant").want(t)
	if got := stored(t, s, "keys/laptop"); got != want || r.notes != "" {
		t.Errorf("it printed %q; the key is\n%s\nwant\n%s", r.notes, got, want)
	}
	// A file that has keys in an account is refused as a whole, and says what to do.
	run(t, "key: pools/new\n---\nkey: accounts/assistant\nkeys: []\n", "config", "apply", "-").
		fail(t, "accounts/assistant: keys: API keys are documents of their own; take the field out, and make one with: colonnade keys create -account assistant")
	if stored(t, s, "pools/new") != "" {
		t.Error("another document of the file was applied")
	}
}

// A file may contain API keys. The command names new ones, since they may have been revoked.
func TestApplyPutsKeys(t *testing.T) {
	s := startEtcd(t)
	for _, id := range []string{"laptop", "phone"} {
		run(t, "", "keys", "create", "-account", "acme", "-id", id).want(t)
	}
	laptop := stored(t, s, "keys/laptop")
	file := run(t, "", "config", "get").want(t)
	if r := run(t, file, "config", "apply", "-"); r.err != nil || r.notes != "" {
		t.Errorf("an unchanged file: %v, %q", r.err, r.notes)
	}
	run(t, "", "keys", "revoke", "laptop").want(t)
	run(t, "", "keys", "create", "-account", "acme", "-id", "desk").want(t)
	r := run(t, file, "config", "apply", "-")
	r.want(t, "applied keys/laptop", "valid from now on, also if revoked before: 1 API key: laptop")
	if got := storedKey(t, s, "laptop"); !strings.Contains(laptop, got.Account) || storedKey(t, s, "desk").Account != "acme" {
		t.Errorf("the key is %+v, and was %s", got, laptop)
	}
}

// A document that an operator changes or copies is not of an API key any more; one that is applied as it stands stays as it is.
func TestApplyDropsMarks(t *testing.T) {
	s := startEtcd(t)
	run(t, smallFleet, "config", "apply", "-").want(t, "applied models/llama")
	put(t, s, map[string]string{"models/lora": "pool: llama\nregistered_by: gpus 1\n"})
	backup := run(t, "", "config", "export").out
	run(t, backup, "config", "apply", "-").want(t, "unchanged models/lora")
	if got := stored(t, s, "models/lora"); !strings.Contains(got, "registered_by") {
		t.Errorf("the document is %q", got)
	}
	const changed = "key: models/lora\npool: llama\nregistered_by: gpus 1\naliases: [l]\n"
	run(t, changed, "config", "diff", "-").exits(t, 1).fail(t, "- registered_by")
	run(t, changed, "config", "apply", "-").want(t, "applied models/lora")
	if got := stored(t, s, "models/lora"); got != "pool: llama\naliases: [l]\n" {
		t.Errorf("the document is %q", got)
	}
	run(t, backup, "config", "apply", "-").want(t, "applied models/lora")
	if got := stored(t, s, "models/lora"); strings.Contains(got, "registered_by") {
		t.Errorf("the document is %q", got)
	}
}
