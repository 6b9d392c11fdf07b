package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCaptureFlags(t *testing.T) {
	t.Parallel()
	conf := t.TempDir()
	f := func(want string, args ...string) {
		t.Helper()
		run(t, "", append([]string{"capture", "start", "-config", conf}, args...)...).fail(t, want)
	}
	f("-account is missing")
	f("-for is missing: how long the capture lasts", "-account", "acme")
	f("-for 25h0m0s: a capture must last more than 0s, and at most 24h0m0s", "-account", "acme", "-for", "25h", "-sink", "file:/x")
	f("-for -1m0s", "-account", "acme", "-for", "-1m", "-sink", "file:/x")
	f("-sink is missing", "-account", "acme", "-for", "1m")
	f(`-sink: "file:x": must be file:/PATH`, "-account", "acme", "-for", "1m", "-sink", "file:x")
	f("-sink: (not shown): must be file:/PATH", "-account", "acme", "-for", "1m", "-sink", "https://user:password@sink")
	f("-max-bytes: ", "-account", "acme", "-for", "1m", "-sink", "file:/x", "-max-bytes", "1GiB")
	f("-account looks like an API key", "-account", "cn_a_b", "-for", "1m", "-sink", "file:/x")
	if files, err := os.ReadDir(conf); err != nil || len(files) > 0 {
		t.Errorf("a refused command has written %v, %v", files, err)
	}
}

func TestCaptureCommands(t *testing.T) {
	t.Parallel()
	conf := t.TempDir()
	capture := func(args ...string) ran {
		t.Helper()
		return run(t, "", append([]string{"capture"}, append(args, "-config", conf)...)...)
	}
	sink := "file:" + filepath.Join(conf, "acme.jsonl")
	capture("start", "-account", "acme", "-for", "10m", "-sink", sink, "-max-bytes", "64KiB").
		want(t, "applied captures/acme", "entries CAPTURE requests and responses of account acme, with their content, to "+sink+" for 10m0s", "colonnade capture stop acme -config",
			"warning: the messages of realtime sessions are NOT CAPTURED")
	for _, name := range []string{"acme", "other"} {
		capture("start", "-account", "acme", "-for", "10m", "-sink", sink, "-name", name).fail(t, "the capture acme of account acme goes on until")
	}
	capture("list").want(t, "acme  acme", "active", "64KiB")
	capture("stop", "acme", "none").fail(t, "none: there is no capture of this name")
	capture("stop", "acme").want(t, "deleted captures/acme")
	capture("list", "-json").want(t, "[]\n")
	old := "key: captures/old\naccount: acme\nsink: " + sink + "\nuntil: 2026-01-01T00:00:00Z\n"
	if err := os.WriteFile(filepath.Join(conf, "captures.yaml"), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	capture("list").want(t, "ended")
	capture("start", "-account", "acme", "-for", "10m", "-sink", sink, "-name", "old").want(t, "applied captures/old")
}
