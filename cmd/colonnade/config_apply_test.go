package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/node"
)

// A file that says nothing of keys leaves them alone.
func TestApplyKeepsKeys(t *testing.T) {
	s := startEtcd(t)
	const file = "../../deploy/two-regions.yaml"
	run(t, "", "config", "apply", file).want(t)
	before := stored(t, s, "accounts/assistant")
	run(t, "", "keys", "create", "-account", "assistant", "-id", "laptop", "-expires", "2999-01-31").want(t)
	run(t, "", "keys", "create", "-account", "assistant", "-id", "phone").want(t)
	want := stored(t, s, "accounts/assistant")
	r := run(t, "", "config", "apply", file)
	r.want(t, "unchanged accounts/assistant") // the keys are not in the file
	if got := stored(t, s, "accounts/assistant"); got != want || !strings.HasPrefix(got, before) || r.notes != "" {
		t.Errorf("said %q; there is\n%s\nand was\n%s", r.notes, got, want)
	}
	// Keys that cannot be read are not thrown away.
	put(t, s, map[string]string{"accounts/assistant": "keys: [{id: a}]"})
	run(t, "key: pools/new\n---\nkey: accounts/assistant\n", "config", "apply", "-").fail(t, "accounts/assistant: the API keys that the account has cannot be kept", "keys: [] for none")
	if stored(t, s, "pools/new") != "" {
		t.Error("another document of the file was put")
	}
}

// A file that has keys means them, and what that changes is told.
func TestApplyTellsOfKeys(t *testing.T) {
	s := startEtcd(t)
	for _, id := range []string{"laptop", "phone"} {
		run(t, "", "keys", "create", "-account", "acme", "-id", id).want(t)
	}
	file := run(t, "", "config", "get").want(t)
	if r := run(t, file, "config", "apply", "-"); r.err != nil || r.notes != "" {
		t.Errorf("nothing has changed: %v, %q", r.err, r.notes)
	}
	run(t, "", "keys", "revoke", "laptop").want(t)
	run(t, "", "keys", "create", "-account", "acme", "-id", "desk").want(t)
	r := run(t, file, "config", "apply", "-")
	r.want(t)
	for _, want := range []string{"account acme: the file takes away 1 key: desk; adds 1 key: laptop", "also if it was revoked before"} {
		if !strings.Contains(r.notes, want) {
			t.Errorf("it does not say %q on standard error:\n%s", want, r.notes)
		}
	}
	r = run(t, "key: accounts/acme\nkeys: []\n", "config", "apply", "-")
	r.want(t, "account acme: the file takes away 2 keys: laptop, phone")
	if strings.Contains(r.notes, "revoked before") || len(accountOf(t, stored(t, s, "accounts/acme")).Keys) != 0 {
		t.Errorf("said %q; there is %s", r.notes, stored(t, s, "accounts/acme"))
	}
}

// No key that is made while a file is applied is lost.
func TestApplyWhileKeysAreMade(t *testing.T) {
	s := startEtcd(t)
	client := s.Client(t)
	const keys = 20
	made := make(chan error, 1)
	go func() {
		for i := range keys {
			if err := etcd.Edit(t.Context(), client, node.Prefix, "accounts/acme", func(old []byte) ([]byte, error) {
				return fleet.AddKey("acme", old, fleet.Key{ID: fmt.Sprintf("k%d", i), SHA256: fleet.KeyHash{byte(i)}})
			}); err != nil {
				made <- err
				return
			}
			time.Sleep(20 * time.Millisecond) // so that those who apply get a turn
		}
		made <- nil
	}()
	docs := []fleet.RawDocument{{Key: "accounts/acme", Value: []byte("weight: 4\n")}, {Key: "pools/p", Value: []byte("{}")}}
	for done := false; !done; {
		select {
		case err := <-made:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
		}
		if err := etcd.Apply(t.Context(), client, node.Prefix, docs); err != nil {
			t.Fatal(err)
		}
	}
	if a := accountOf(t, stored(t, s, "accounts/acme")); len(a.Keys) != keys || a.Weight != 4 {
		t.Errorf("%d keys, want %d; weight %d", len(a.Keys), keys, a.Weight)
	}
}
