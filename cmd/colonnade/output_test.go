package main

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// What could not be written as a whole has failed, whichever command wrote it.
func TestUnwritten(t *testing.T) {
	s := startEtcd(t)
	run(t, "key: models/a\n---\nkey: accounts/x\n---\nkey: accounts/y\n", "config", "apply", "-").want(t)
	run(t, "", "keys", "create", "-account", "x").want(t)
	for _, args := range []string{
		"config get", "config status", "config status -json", "config validate ../../deploy/fleet.yaml", "config schema", "config apply ../../deploy/fleet.yaml",
		"status", "status -json", "config delete pools/none", "config confirm-deletions", "keys list", "keys list -json", "keys create -account x", "config",
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skipf("this system has no /dev/full: %v", err)
		}
		root := newRoot()
		root.SetArgs(doubleDashes(strings.Fields(args)))
		root.SetOut(full)
		root.SetErr(&screen{})
		if err := root.ExecuteContext(t.Context()); !errors.Is(err, syscall.ENOSPC) || strings.Count(err.Error(), "no space") != 1 {
			t.Errorf("%s: %v", args, err)
		}
		full.Close()
	}
	// What else went wrong is said, too.
	put(t, s, map[string]string{"pools/bad": "queue: {limit: -3}"})
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("this system has no /dev/full: %v", err)
	}
	defer full.Close()
	root := newRoot()
	root.SetArgs([]string{"config", "status"})
	root.SetOut(full)
	if err := root.ExecuteContext(t.Context()); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "1 thing is wrong") {
		t.Error(err)
	}
}

// What is in the store reaches no terminal as it is, by an error either.
func TestTell(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"keys/\x1b[31mx": "{}", "keys/y": "account: 1"})
	err := run(t, "", "keys", "list").err
	if err == nil {
		t.Fatal("it did not fail")
	}
	var said strings.Builder
	tell(&said, err)
	if strings.Contains(said.String(), "\x1b") || !strings.Contains(said.String(), `\x1b[31mx`) || !strings.Contains(said.String(), "\nkeys/y: account: must be text") {
		t.Errorf("said %q", said.String())
	}
}

// What is written as JSON says the same, and nothing of it moves a terminal.
func TestJSONIsASCII(t *testing.T) {
	said := map[string]string{"why <": "C1 \u009b2J, override \u202e, DEL \x7f, beyond 🦜, bad \xff, ESC \x1b, ü"}
	for _, indent := range []string{"", "  "} {
		var b strings.Builder
		if err := writeJSON(&b, said, indent); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(b.String(), func(r rune) bool { return r != '\n' && (r < ' ' || r > '~') }) {
			t.Errorf("got %q", b.String())
		}
		if n := strings.Count(b.String(), "\n"); (n == 1) != (indent == "") {
			t.Errorf("%d lines with the indent %q", n, indent)
		}
		got := map[string]string{}
		want := strings.ToValidUTF8(said["why <"], "\ufffd")
		if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got["why <"] != want {
			t.Errorf("got %q, %v", got, err)
		}
	}
}
