package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/internal/etcdtest"
)

// stored returns a document as it stands in etcd.
func stored(t *testing.T, s *etcdtest.Server, key string) string {
	t.Helper()
	answer, err := s.Client(t).Get(t.Context(), "/colonnade/v1/"+key)
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Kvs) == 0 {
		return ""
	}
	return string(answer.Kvs[0].Value)
}

// accountOf reads an account's document.
func accountOf(t *testing.T, text string) *fleet.Account {
	t.Helper()
	docs := fleet.NewDocuments()
	if err := docs.Put("accounts/x", []byte(text), 1); err != nil {
		t.Fatal(err)
	}
	a, _ := docs.Table().Account("x")
	return a
}

func TestKeysCreate(t *testing.T) {
	s := startEtcd(t)
	made := run(t, "", "keys", "create", "-account", "acme", "-id", "laptop", "-expires", "2999-01-31")
	key := made.want(t, "account acme had no document; now it has one, with the defaults", "key laptop of account acme expires at 2999-01-31T00:00:00Z")
	if !regexp.MustCompile(`^cn_laptop_[A-Z2-7]{26}\n$`).MatchString(key) || strings.Contains(made.notes, key[:20]) {
		t.Errorf("on standard output: %q; on standard error: %q", key, made.notes)
	}
	k := accountOf(t, stored(t, s, "accounts/acme")).Keys[0]
	if k.ID != "laptop" || k.SHA256 != sha256.Sum256([]byte(strings.TrimSpace(key))) || time.Since(k.Created) > time.Minute || k.Expires.Year() != 2999 {
		t.Errorf("%+v", k)
	}

	const text = "# ours\n\nweight: 4 # much\n"
	put(t, s, map[string]string{"accounts/other": text})
	made = run(t, "", "keys", "create", "-account", "other")
	key = made.want(t, "of account other never expires")
	if got := stored(t, s, "accounts/other"); !strings.HasPrefix(got, text) || strings.Contains(got, strings.TrimSpace(key)) || strings.Contains(made.notes, "no document") {
		t.Errorf("the document is %q; said %q", got, made.notes)
	}
	run(t, "", "keys", "create", "-account", "other", "-expires", "720h").want(t, "of account other expires at ")
	if a := accountOf(t, stored(t, s, "accounts/other")); len(a.Keys) != 2 || a.Weight != 4 || a.Keys[1].Expires.Sub(a.Keys[1].Created) != 720*time.Hour {
		t.Errorf("%+v", a)
	}
}

func TestKeysCreateRefuses(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"accounts/bad": "weight: 0"})
	run(t, "", "keys", "create", "-account", "acme", "-id", "k1").want(t)
	before := stored(t, s, "accounts/acme")
	f := func(args, want string) {
		t.Helper()
		r := run(t, "", append([]string{"keys", "create"}, strings.Fields(args)...)...)
		r.fail(t, want)
		if r.out != "" {
			t.Errorf("it printed %q", r.out)
		}
	}
	f("", "-account is missing")
	f("-account a/b:c~d", `-account "a/b:c~d": a name must begin with a letter or digit`)
	f("-account acme -id -x", `-id "-x": a name must begin`)
	f("-account acme -id cn_x", `-id looks like an API key`)
	f("-account acme -id k1", "-id k1: another key of this account has this id; choose another one, or revoke that key first")
	f("-account acme -expires 2020-01-01", `-expires "2020-01-01": that is in the past`)
	f("-account acme -expires -5m", `-expires "-5m": that is in the past`)
	f("-account acme -expires 30days", `-expires "30days": must be a duration such as 720h (30 days), a day such as`)
	f("-account bad", "no key was made: accounts/bad: weight: 0: must be at least 1")
	f("acme", `unexpected argument "acme"`)
	if after := stored(t, s, "accounts/acme"); after != before || stored(t, s, "accounts/bad") != "weight: 0" {
		t.Errorf("a document was changed: %q", after)
	}
}

func TestKeysList(t *testing.T) {
	s := startEtcd(t)
	run(t, "", "keys", "list").want(t, "there are no keys")
	if got := run(t, "", "keys", "list", "-json").want(t); got != "[]\n" {
		t.Errorf("without keys: %q", got)
	}
	old := fmt.Sprintf("keys: [{id: old, sha256: %q, created: 2020-01-31T12:00:00Z, expires: 2021-01-31T12:00:00Z}, {id: bare, sha256: %q}]", strings.Repeat("ab", 32), strings.Repeat("cd", 32))
	put(t, s, map[string]string{"accounts/beta": old, "accounts/none": "{}", "accounts/bet": "{}"})
	run(t, "", "keys", "create", "-account", "acme", "-id", "new").want(t)
	for _, row := range []string{
		`ACCOUNT +ID +CREATED +EXPIRES +STATE`, `acme +new +20\S+Z +never +active`,
		`beta +old +2020-01-31T12:00:00Z +2021-01-31T12:00:00Z +expired`, `beta +bare +- +never +active`,
	} {
		if got := run(t, "", "keys", "list").want(t); !regexp.MustCompile(`(?m)^` + row + `$`).MatchString(got) {
			t.Errorf("no line is like %q:\n%s", row, got)
		}
	}
	var listed []map[string]string
	if err := json.Unmarshal([]byte(run(t, "", "keys", "list", "-account", "beta", "-json").want(t)), &listed); err != nil ||
		len(listed) != 2 || listed[0]["id"] != "old" || listed[0]["state"] != "expired" || listed[1]["expires"] != "" || listed[1]["account"] != "beta" {
		t.Errorf("%v, %v", err, listed)
	}
	run(t, "", "keys", "list", "-account", "nobody").fail(t, "there is no account nobody: no document accounts/nobody")

	// One that nodes do not accept, and may never have had a good version of, is told of, and the others are listed.
	put(t, s, map[string]string{"accounts/beta": "limits: {tokens_per_minute: 5}", "accounts/twin": stored(t, s, "accounts/acme")})
	r := run(t, "", "keys", "list")
	r.fail(t, "accounts/beta: limits.tokens_per_minute: 5: this limit is not enforced", "a node that has had a good version keeps that one, with its keys, and any other has none", "key new of accounts/twin is also one of accounts/acme")
	if !strings.Contains(r.out, "acme") || strings.Contains(r.out, "beta") {
		t.Errorf("listed:\n%s", r.out)
	}
}

func TestKeysRevoke(t *testing.T) {
	s := startEtcd(t)
	for _, k := range []string{"acme a", "acme b", "acme c", "beta b", "beta d"} {
		account, id, _ := strings.Cut(k, " ")
		run(t, "", "keys", "create", "-account", account, "-id", id).want(t)
	}
	ids := func(account string) string {
		var ids []string
		for _, k := range accountOf(t, stored(t, s, "accounts/"+account)).Keys {
			ids = append(ids, k.ID)
		}
		return strings.Join(ids, " ")
	}
	whole := strings.TrimSpace(run(t, "", "keys", "create", "-account", "beta", "-id", "e").want(t))
	// Whatever is wrong, nothing is revoked, and no key is repeated.
	f := func(args, want string) {
		t.Helper()
		r := run(t, "", append([]string{"keys", "revoke"}, strings.Fields(args)...)...)
		r.fail(t, want)
		if said := r.out + r.notes + fmt.Sprint(r.err); strings.Contains(said, whole[5:]) || strings.Contains(said, "secret") {
			t.Errorf("it repeats a key: %s", said)
		}
		if ids("acme") != "a b c" || ids("beta") != "b d e" {
			t.Fatalf("revoke %s: left are %q and %q", args, ids("acme"), ids("beta"))
		}
	}
	f("", "keys revoke needs at least one ID")
	f("a b", "b: several accounts have a key of this id (acme, beta); say with -account whose is meant")
	f("a x", "x: there is no key of this id")
	f("a "+whole, "argument 2 looks like an API key")
	f("sk-secret", "argument 1 looks like an API key")
	f("-account beta a", "a: there is no key of this id")
	f("-account "+whole+" a", "-account looks like an API key")
	f("-account nobody a", "there is no account nobody")
	run(t, "", "keys", "list", whole).fail(t, "argument 1 looks like an API key")

	if got := run(t, "", "keys", "revoke", "d", "a", "a").want(t); got != "revoked key a of account acme\nrevoked key d of account beta\n" {
		t.Errorf("said %q", got)
	}
	run(t, "", "keys", "revoke", "-account", "acme", "b").want(t, "revoked key b of account acme")
	if ids("acme") != "c" || ids("beta") != "b e" {
		t.Errorf("left are %q and %q", ids("acme"), ids("beta"))
	}

	// The key may be in a document that cannot be read.
	put(t, s, map[string]string{"accounts/beta": "weight: 0"})
	run(t, "", "keys", "revoke", "e").fail(t, "e: there is no key of this id", "accounts/beta: weight: 0")
}

func TestKeysWithoutEtcd(t *testing.T) {
	t.Parallel() // it waits ten seconds for nobody
	r := run(t, "", "keys", "create", "-account", "acme", "-etcd", "http://127.0.0.1:1")
	r.fail(t, "etcd at http://127.0.0.1:1 does not answer; say where it is with -etcd or COLONNADE_ETCD")
	if r.out != "" {
		t.Errorf("it printed %q", r.out)
	}
}

// A key that somebody pasted into a document is not repeated by what reads it.
func TestKeysInBadDocumentsAreNotRepeated(t *testing.T) {
	s := startEtcd(t)
	const secret = "QZ2WXYCANARY"
	texts := map[string]string{
		"accounts/a": "cn_a_" + secret + ": 1", "accounts/b": "weight: sk-" + secret, "accounts/c": "priority: cn_a_" + secret, "accounts/d": "models: ['cn_a_" + secret + " x']",
		"accounts/e": "limits: {'of Ann: cn_a_" + secret + "': 1}", "accounts/cn_x_" + secret: "weight: 0",
	}
	put(t, s, texts)
	file := ""
	for key, text := range texts {
		file += "---\nkey: " + key + "\n" + text + "\n"
	}
	for _, args := range []string{"keys list", "keys create -account b", "keys revoke x", "config status", "config validate -", "config apply -"} {
		r := run(t, file, strings.Fields(args)...)
		if said := r.out + r.notes + fmt.Sprint(r.err); r.err == nil || strings.Contains(said, secret) || !strings.Contains(said, "looks like an API key") {
			t.Errorf("%s: %s", args, said)
		}
	}
}
