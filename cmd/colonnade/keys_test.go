package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/etcdtest"
	"colonnade/node"
)

// stored returns a document as it is in etcd.
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

// storedKey reads the document of an API key.
func storedKey(t *testing.T, s *etcdtest.Server, id string) *fleet.APIKey {
	t.Helper()
	docs := document.NewSet()
	if err := docs.Put("keys/"+id, []byte(stored(t, s, "keys/"+id)), 1); err != nil {
		t.Fatal(err)
	}
	return docs.Noun("keys/" + id).(*fleet.APIKey)
}

// apiKeyDocument writes the document of an API key; rest are further fields.
func apiKeyDocument(account, hash, rest string) string {
	return fmt.Sprintf("{account: %s, sha256: %q%s}", account, strings.Repeat(hash, 32), rest)
}

func TestKeysCreate(t *testing.T) {
	s := startEtcd(t)
	made := run(t, "", "keys", "create", "-account", "acme", "-id", "laptop", "-expires", "2999-01-31")
	key := made.want(t, "account acme has no document, so it has the defaults", "key laptop of account acme expires at 2999-01-31T00:00:00Z")
	if !regexp.MustCompile(`^cn_laptop_[A-Z2-7]{26}\n$`).MatchString(key) || strings.Contains(made.notes, key[:20]) {
		t.Errorf("on standard output: %q; on standard error: %q", key, made.notes)
	}
	k := storedKey(t, s, "laptop")
	if k.Account != "acme" || k.SHA256 != sha256.Sum256([]byte(strings.TrimSpace(key))) || time.Since(k.Created) > time.Minute || k.Expires.Year() != 2999 {
		t.Errorf("%+v", k)
	}
	if got := stored(t, s, "accounts/acme"); got != "" {
		t.Errorf("the account has the document %q", got)
	}

	const text = "# ours\n\nweight: 4 # much\n"
	put(t, s, map[string]string{"accounts/other": text})
	made = run(t, "", "keys", "create", "-account", "other")
	key = made.want(t, "of account other never expires")
	id := strings.Split(key, "_")[1]
	if got := stored(t, s, "accounts/other"); got != text || strings.Contains(made.notes, "no document") || strings.Contains(stored(t, s, "keys/"+id), strings.TrimSpace(key)) {
		t.Errorf("the account's document is %q, the key's %q; printed %q", got, stored(t, s, "keys/"+id), made.notes)
	}
	if k := storedKey(t, s, id); k.Account != "other" || !k.Expires.IsZero() {
		t.Errorf("%+v", k)
	}
	run(t, "", "keys", "create", "-account", "other", "-id", "month", "-expires", "720h").want(t, "of account other expires at ")
	if k := storedKey(t, s, "month"); k.Expires.Sub(k.Created) != 720*time.Hour {
		t.Errorf("%+v", k)
	}

	put(t, s, map[string]string{"accounts/bad": "weight: 0"})
	if r := run(t, "", "keys", "create", "-account", "bad"); r.err != nil || !strings.Contains(strings.Join(strings.Fields(r.notes), " "), "accounts/bad: weight: 0: must be at least 1; nodes use an earlier valid version of the account, or the defaults") {
		t.Errorf("%v; printed %q", r.err, r.notes)
	}
}

func TestKeysCreateRefuses(t *testing.T) {
	s := startEtcd(t)
	run(t, "", "keys", "create", "-account", "acme", "-id", "k1").want(t)
	before := stored(t, s, "keys/k1")
	f := func(args, want string) {
		t.Helper()
		r := run(t, "", append([]string{"keys", "create"}, strings.Fields(args)...)...)
		r.fail(t, want)
		if r.out != "" {
			t.Errorf("it printed %q", r.out)
		}
	}
	f("", "-account is missing")
	f("-role admin", `-role "admin": must be worker`)
	f("-role worker -account acme", "-account and -role exclude each other")
	f("-account a/b:c~d", `-account "a/b:c~d": a name must begin with a letter or digit`)
	f("-account acme -id -x", `-id "-x": a name must begin`)
	f("-account acme -id cn_x", `-id looks like an API key`)
	f("-account acme -id k1", "-id k1: a key of this id exists; choose another id, or revoke that key first")
	f("-account other -id k1", "-id k1: a key of this id exists") // ids are those of the whole fleet
	f("-account acme -expires 2020-01-01", `-expires "2020-01-01": that is in the past`)
	f("-account acme -expires -5m", `-expires "-5m": that is in the past`)
	f("-account acme -expires 30days", `-expires "30days": must be a duration such as 720h (30 days), a day such as`)
	f("acme", `unexpected argument "acme"`)
	if after := stored(t, s, "keys/k1"); after != before {
		t.Errorf("the key was replaced: %q", after)
	}
}

// A key for workers has no account. The list shows its role, and it is revoked as any other.
func TestWorkerKeys(t *testing.T) {
	s := startEtcd(t)
	key := run(t, "", "keys", "create", "-role", "worker", "-id", "gpus").want(t, "key gpus for workers never expires; it is not shown again")
	if k := storedKey(t, s, "gpus"); !k.ForWorkers() || k.Account != "" || k.SHA256 != sha256.Sum256([]byte(strings.TrimSpace(key))) {
		t.Errorf("%+v", k)
	}
	if got := run(t, "", "keys", "list").want(t); !regexp.MustCompile(`\(worker\) +gpus +20\S+Z +never +active`).MatchString(got) {
		t.Errorf("listed:\n%s", got)
	}
	if got := run(t, "", "keys", "list", "-json").want(t, `"role": "worker"`); strings.Contains(got, `"account"`) {
		t.Errorf("listed:\n%s", got)
	}
	run(t, "", "keys", "revoke", "gpus").want(t, "revoked key gpus for workers\n")
	dir := t.TempDir()
	run(t, "", "keys", "create", "-role", "worker", "-id", "gpus", "-config", dir).want(t, "key gpus for workers in "+dir)
	run(t, "", "config", "validate", "-config", dir).want(t, "1 document valid")
}

func TestKeysList(t *testing.T) {
	s := startEtcd(t)
	run(t, "", "keys", "list").want(t, "there are no keys")
	if got := run(t, "", "keys", "list", "-json").want(t); got != "[]\n" {
		t.Errorf("without keys: %q", got)
	}
	put(t, s, map[string]string{
		"keys/old":  apiKeyDocument("beta", "ab", ", created: 2020-01-31T12:00:00Z, expires: 2021-01-31T12:00:00Z"),
		"keys/bare": apiKeyDocument("beta", "cd", ""),
	})
	run(t, "", "keys", "create", "-account", "acme", "-id", "new").want(t)
	rows := []string{
		`ACCOUNT +ID +CREATED +EXPIRES +STATE`, `acme +new +20\S+Z +never +active`,
		`beta +bare +- +never +active`, `beta +old +2020-01-31T12:00:00Z +2021-01-31T12:00:00Z +expired`,
	}
	if got := run(t, "", "keys", "list").want(t); !regexp.MustCompile(`^` + strings.Join(rows, `\n`) + `\n$`).MatchString(got) {
		t.Errorf("listed:\n%s", got)
	}
	var listed []map[string]string
	if err := json.Unmarshal([]byte(run(t, "", "keys", "list", "-account", "beta", "-json").want(t)), &listed); err != nil ||
		len(listed) != 2 || listed[1]["id"] != "old" || listed[1]["state"] != "expired" || listed[0]["expires"] != "" || listed[0]["account"] != "beta" {
		t.Errorf("%v, %v", err, listed)
	}
	if got := run(t, "", "keys", "list", "-account", "none").want(t, "account none has no keys"); strings.Contains(got, "beta") {
		t.Errorf("listed:\n%s", got)
	}

	// A document that nodes do not accept is an error, and the others are listed.
	put(t, s, map[string]string{"keys/bad": "account: beta", "keys/twin": stored(t, s, "keys/new")})
	r := run(t, "", "keys", "list")
	r.fail(t, "keys/bad: sha256: the field is required (a node that has an earlier valid version uses that one)", "keys/twin has no effect, since keys/new has the same hash")
	if !strings.Contains(r.out, "acme") || strings.Contains(r.out, "bad") {
		t.Errorf("listed:\n%s", r.out)
	}
}

func TestKeysRevoke(t *testing.T) {
	s := startEtcd(t)
	for _, k := range []string{"acme a", "acme b", "acme c", "beta d", "beta e"} {
		account, id, _ := strings.Cut(k, " ")
		run(t, "", "keys", "create", "-account", account, "-id", id).want(t)
	}
	ids := func() string {
		t.Helper()
		docs, _, err := etcd.List(t.Context(), s.Client(t), node.Prefix, "keys/")
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, d := range docs {
			ids = append(ids, strings.TrimPrefix(d.Key, "keys/"))
		}
		return strings.Join(ids, " ")
	}
	whole := strings.TrimSpace(run(t, "", "keys", "create", "-account", "beta", "-id", "f").want(t))
	// Whatever is wrong, nothing is revoked, and no key is repeated.
	f := func(args, want string) {
		t.Helper()
		r := run(t, "", append([]string{"keys", "revoke"}, strings.Fields(args)...)...)
		r.fail(t, want)
		if printed := r.out + r.notes + fmt.Sprint(r.err); strings.Contains(printed, whole[5:]) || strings.Contains(printed, "secret") {
			t.Errorf("it repeats a key: %s", printed)
		}
		if got := ids(); got != "a b c d e f" {
			t.Fatalf("revoke %s: left are %q", args, got)
		}
	}
	f("", "keys revoke needs at least one ID")
	f("a x", "x: no key has this id")
	f("a "+whole, "argument 2 looks like an API key")
	f("sk-secret", "argument 1 looks like an API key")
	run(t, "", "keys", "list", whole).fail(t, "argument 1 looks like an API key")
	run(t, "", "keys", "list", "-account", whole).fail(t, "-account looks like an API key")

	if got := run(t, "", "keys", "revoke", "d", "a", "a").want(t); got != "revoked key a of account acme\nrevoked key d of account beta\n" {
		t.Errorf("printed %q", got)
	}
	if got := ids(); got != "b c e f" {
		t.Errorf("the remaining keys are %q", got)
	}
	// Also one with a document that no node accepts.
	put(t, s, map[string]string{"keys/e": "account: beta"})
	run(t, "", "keys", "revoke", "e").want(t, "revoked keys/e\n")
	if got := ids(); got != "b c f" {
		t.Errorf("the remaining keys are %q", got)
	}
}

// Nodes hold back the revocation of most keys, and the command reports it.
func TestKeysRevokeMany(t *testing.T) {
	s := startEtcd(t)
	docs := map[string]string{}
	args := []string{"keys", "revoke"}
	for i := range 12 {
		id := fmt.Sprintf("k%02d", i)
		docs["keys/"+id] = apiKeyDocument("acme", fmt.Sprintf("%02x", i), "")
		args = append(args, id)
	}
	put(t, s, docs)
	if got := run(t, "", args[:8]...).want(t, "revoked key k05 of account acme"); strings.Contains(got, "mistake") {
		t.Errorf("six keys are too many:\n%s", got)
	}
	put(t, s, docs)
	run(t, "", args...).want(t, "revoked key k11 of account acme", "These are more than half of all keys. Nodes assume a mistake", "colonnade config confirm-deletions")
}

func TestKeysWithoutEtcd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var out strings.Builder
	err := command.Run(ctx, newProgram(strings.NewReader(""), &out, io.Discard), strings.Fields("colonnade keys create -account acme -etcd http://127.0.0.1:1"))
	if err == nil || !strings.Contains(err.Error(), "etcd at http://127.0.0.1:1 does not answer; set its URLs with -etcd or COLONNADE_ETCD") || out.Len() > 0 {
		t.Errorf("it printed %q: %v", out.String(), err)
	}
}

// No command prints an API key that was pasted into a document.
func TestKeysInBadDocumentsAreNotRepeated(t *testing.T) {
	s := startEtcd(t)
	const secret = "QZ2WXYCANARY"
	texts := map[string]string{
		"accounts/a": "cn_a_" + secret + ": 1", "accounts/b": "weight: sk-" + secret, "accounts/c": "priority: cn_a_" + secret, "accounts/d": "models: ['cn_a_" + secret + " x']",
		"accounts/e": "limits: {'of Ann: cn_a_" + secret + "': 1}", "accounts/cn_x_" + secret: "weight: 0",
		"keys/a": "{account: a, sha256: cn_a_" + secret + "}", "keys/cn_a_" + secret: "{}",
	}
	put(t, s, texts)
	file := ""
	for key, text := range texts {
		file += "---\nkey: " + key + "\n" + text + "\n"
	}
	for _, args := range []string{"keys list", "keys revoke cn_a_" + secret, "config status", "config validate -", "config apply -"} {
		r := run(t, file, strings.Fields(args)...)
		if printed := r.out + r.notes + fmt.Sprint(r.err); r.err == nil || strings.Contains(printed, secret) || !strings.Contains(printed, "looks like an API key") {
			t.Errorf("%s: %s", args, printed)
		}
	}
}
