package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// writeTo writes a file that only its owner may read.
func writeTo(t *testing.T, dir, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// keyPattern is a key of account acme with some id.
func keyPattern(id string) *regexp.Regexp {
	return regexp.MustCompile(`^cn_` + id + `_[A-Z2-7]{26}\n$`)
}

// The life of API keys in files: no etcd is asked, and the key itself stands nowhere.
func TestKeysInFiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("COLONNADE_ETCD", "http://127.0.0.1:1")
	run(t, "", "keys", "list", "-config", dir).want(t, "there are no keys")
	made := run(t, "", "keys", "create", "-config", dir, "-account", "acme", "-id", "laptop")
	file := filepath.Join(dir, "keys.yaml")
	key := made.want(t, "account acme has no document, so it has the defaults", "key laptop of account acme in "+file+" never expires; it is not shown again")
	hash := sha256.Sum256([]byte(strings.TrimSpace(key)))
	text := textOf(t, file)
	if !keyPattern("laptop").MatchString(key) || strings.Contains(text, strings.TrimSpace(key)) || !strings.Contains(text, hex.EncodeToString(hash[:])) {
		t.Errorf("printed %q; the file is\n%s", key, text)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	writeTo(t, dir, "accounts.yaml", "key: accounts/beta\nweight: 2\n")
	if made := run(t, "", "keys", "create", "-config", dir, "-account", "beta", "-id", "phone", "-expires", "720h"); strings.Contains(made.notes, "no document") {
		t.Errorf("printed %q", made.notes)
	}
	run(t, "", "keys", "create", "-config", dir, "-account", "beta", "-id", "phone").fail(t, "-id phone: a key of this id exists; choose another id, or revoke that key first")
	if out := run(t, "", "keys", "list", "-config", file).want(t); !regexp.MustCompile(`acme +laptop .* never +active\nbeta +phone .* active\n`).MatchString(out) {
		t.Errorf("listed:\n%s", out)
	}

	before := textOf(t, file)
	run(t, "", "keys", "revoke", "-config", dir, "laptop", "unknown").fail(t, "unknown: no key has this id")
	if textOf(t, file) != before {
		t.Error("a key was revoked")
	}
	if out := run(t, "", "keys", "revoke", "-config", dir, "laptop").want(t, "revoked key laptop of account acme from "+file+":1\n"); strings.Contains(out, "confirm") {
		t.Errorf("printed %q", out)
	}
	run(t, "", "keys", "revoke", "-config", dir, "phone").want(t, "revoked key phone")
	if got := textOf(t, file); got != "# no documents\n" {
		t.Errorf("the file is %q", got)
	}
	run(t, "", "keys", "list", "-config", dir).want(t, "there are no keys")
}

// A single file must be private before a key goes into it.
func TestKeysCreateInAFile(t *testing.T) {
	file := writeTo(t, t.TempDir(), "place.yaml", "# ours\nkey: pools/a\n")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	r := run(t, "", "keys", "create", "-config", file, "-account", "acme")
	r.fail(t, "nothing was changed", "chmod 600 "+file)
	if r.out != "" || textOf(t, file) != "# ours\nkey: pools/a\n" {
		t.Errorf("printed %q; the file is %q", r.out, textOf(t, file))
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "", "keys", "create", "-config", file, "-account", "acme", "-id", "k").want(t, "in "+file)
	if got := textOf(t, file); !strings.HasPrefix(got, "# ours\nkey: pools/a\n---\nkey: keys/k\n") {
		t.Errorf("the file is %q", got)
	}
	r = run(t, "", "keys", "create", "-config", filepath.Join(filepath.Dir(file), "nowhere"), "-account", "acme")
	r.fail(t, "nowhere: no such file or directory")
	if r.out != "" {
		t.Errorf("printed %q", r.out)
	}
}

// Bad documents elsewhere do not hide the keys, and nothing is changed beside them.
func TestKeysBesideBadDocuments(t *testing.T) {
	dir := t.TempDir()
	run(t, "", "keys", "create", "-config", dir, "-account", "acme", "-id", "k").want(t)
	bad := writeTo(t, dir, "pools.yaml", "key: pools/a\n---\nkey: pools/b\nodd: 1\n")
	r := run(t, "", "keys", "list", "-config", dir)
	r.fail(t, bad+":", "pools/b: odd: unknown field")
	if !strings.Contains(r.out, "acme") {
		t.Errorf("listed:\n%s", r.out)
	}
	run(t, "", "keys", "create", "-config", dir, "-account", "acme", "-id", "other").fail(t, "nothing was changed", bad+":", "pools/b: odd")
	run(t, "", "config", "get", "-config", dir, "pools/a").fail(t, "key: pools/a\n", "pools/b: odd")
	run(t, "", "config", "validate", "-config", dir).fail(t, "error: "+bad+":", "pools/b: odd: unknown field", "2 documents valid, 1 error")
	run(t, "key: pools/b\n", "config", "validate", "-config", dir, "-").want(t, "3 documents valid, 0 errors")
	run(t, "key: pools/b\n", "config", "apply", "-config", dir, "-").want(t, "applied pools/b at "+bad+":3")
	run(t, "", "config", "validate", "-config", dir).want(t, "3 documents valid, 0 errors")
}

func TestConfigInFiles(t *testing.T) {
	dir, input := t.TempDir(), t.TempDir()
	t.Setenv("COLONNADE_ETCD", "http://127.0.0.1:1")
	run(t, "", "config", "validate", "-config", dir).fail(t, "error: "+dir+": there are no documents in it")
	run(t, "", "config", "apply", "-config", dir, input).fail(t, input+": there are no documents in it")
	all := writeTo(t, dir, "all.yaml", "# ours\n\n# the model\nkey: models/m\npool: p\n---\nkey: pools/p # small\nqueue: {limit: 1}\n")
	one := writeTo(t, input, "one.yaml", "key: pools/p\nqueue: {limit: 2}\n---\nkey: colos/ams\nregion: weur\n---\nkey: models/m\n# the model\npool: p\n")
	writeTo(t, input, "two.json", `{"key": "models/n", "pool": "p"}`)
	out := run(t, "", "config", "apply", "-config", dir, input).want(t)
	colos := filepath.Join(dir, "colos.yaml")
	if want := "applied pools/p at " + all + ":7\napplied colos/ams at " + colos + ":1\nunchanged models/m at " + all + ":4\napplied models/n at " + all + ":10\n"; out != want {
		t.Errorf("printed\n%s\nwant\n%s", out, want)
	}
	want := "# ours\n\n# the model\nkey: models/m\npool: p\n---\nkey: pools/p\nqueue: {limit: 2}\n---\nkey: models/n\npool: p\n"
	if got := textOf(t, all); got != want {
		t.Errorf("the file is\n%s\nwant\n%s", got, want)
	}
	run(t, "", "config", "apply", "-config", dir, one).want(t, "unchanged pools/p", "unchanged colos/ams")
	run(t, "key: pools/p\nodd: 1\n---\nkey: pools/q\n", "config", "apply", "-config", dir, "-").fail(t, "standard input: pools/p: odd: unknown field")

	file := run(t, "", "config", "get", "-config", dir).want(t, "# the model", "key: colos/ams\nregion: weur\n")
	run(t, file, "config", "apply", "-config", dir, "-").want(t, "unchanged models/m", "unchanged pools/p", "unchanged colos/ams", "unchanged models/n")
	if got := run(t, "", "config", "get", "-config", dir, "pools/", "models/n").want(t); got != "key: models/n\npool: p\n---\nkey: pools/p\nqueue: {limit: 2}\n" {
		t.Errorf("printed\n%s", got)
	}
	run(t, "", "config", "get", "-config", dir, "pools/x").fail(t, "there is no document pools/x")
	run(t, "", "config", "validate", "-config", dir).want(t, "4 documents valid, 0 errors")
	run(t, "", "config", "validate", dir).want(t, "4 documents valid, 0 errors")
	run(t, "", "config", "validate").fail(t, "config validate needs at least one FILE")

	run(t, "", "config", "delete", "-config", dir, "models/m", "models/x").fail(t, "nothing was deleted: not there: models/x")
	run(t, "", "config", "delete", "-config", dir, "models/x").fail(t, "colonnade config get -config "+dir+" lists the documents")
	run(t, "", "config", "delete", "-config", dir, "-ignore-missing", "models/m", "models/x").want(t, "deleted models/m from "+all+":4\n", "models/x does not exist\n")
	run(t, "", "config", "delete", "-config", dir, "-confirm", "models/n").fail(t, "-confirm and -force are for documents in etcd")
	run(t, "", "config", "delete", "-config", dir, "model/n").fail(t, "unknown kind of document")
	if got := textOf(t, all); got != strings.Replace(want, "# the model\nkey: models/m\npool: p\n", "", 1) {
		t.Errorf("the file is\n%s", got)
	}
}

// API keys that a file brings back are named, as with etcd.
func TestApplyReportsAPIKeysInFiles(t *testing.T) {
	dir := t.TempDir()
	run(t, "", "keys", "create", "-config", dir, "-account", "acme", "-id", "laptop").want(t)
	backup := run(t, "", "config", "get", "-config", dir).want(t)
	if r := run(t, backup, "config", "apply", "-config", dir, "-"); r.err != nil || r.notes != "" {
		t.Errorf("an unchanged file: %v, %q", r.err, r.notes)
	}
	run(t, "", "keys", "revoke", "-config", dir, "laptop").want(t)
	run(t, backup, "config", "apply", "-config", dir, "-").want(t, "applied keys/laptop", "valid from now on, also if revoked before: 1 API key: laptop")
}

// Files and etcd exclude each other; a flag goes before the environment.
func TestFilesOrEtcd(t *testing.T) {
	dir := t.TempDir()
	writeTo(t, dir, "a.yaml", "key: pools/infiles\n")
	s := startEtcd(t) // sets COLONNADE_ETCD
	put(t, s, map[string]string{"pools/inetcd": "{}"})
	get := func(args ...string) ran { return run(t, "", append([]string{"config", "get"}, args...)...) }
	get().want(t, "pools/inetcd")
	get("-config", dir).want(t, "pools/infiles")
	get("-config", dir, "-etcd", "http://127.0.0.1:1").fail(t, "-config and -etcd", "exclude each other")
	t.Setenv("COLONNADE_CONFIG", dir)
	get().fail(t, "COLONNADE_CONFIG and COLONNADE_ETCD) exclude each other")
	get("-etcd", "http://"+s.Address+"/").want(t, "pools/inetcd")
	t.Setenv("COLONNADE_ETCD", "")
	get().want(t, "pools/infiles")
	t.Setenv("COLONNADE_CONFIG", "")
	get("-etcd", "http://"+s.Address).want(t, "pools/inetcd")
}
