package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/change"
	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
	"colonnade/internal/etcdtest"
)

// inEtcd returns documents in an etcd of the test.
func inEtcd(t *testing.T, text string) *change.Documents {
	t.Helper()
	d := &change.Documents{Client: etcdtest.Start(t).Client(t)}
	docs, err := document.SplitFile([]byte(text))
	if err == nil {
		_, err = d.Writer().Apply(t.Context(), docs)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var jsonBody = []string{"Content-Type", typeJSON}

// put puts a document as JSON.
func (c *client) put(path, body string, headers ...string) response {
	return c.do("PUT", "/api/v1"+path, body, append(slices.Clone(jsonBody), headers...)...)
}

// get returns the document of a path as YAML, and its ETag.
func (c *client) get(t *testing.T, path string) (text, etag string) {
	t.Helper()
	r := c.do("GET", "/api/v1"+path, "", "Accept", typeYAML).want(t, 200)
	return r.body, r.Header.Get("ETag")
}

// Changes are reviewed and refused, depend on the ETag, and are the same in files and in etcd.
func TestChangesOfDocuments(t *testing.T) {
	t.Parallel()
	for name, documents := range map[string]*change.Documents{"files": inFiles(t, smallFleet), "etcd": inEtcd(t, smallFleet)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, Config{Documents: documents})
			before, etag := c.get(t, "/models/llama")
			if !strings.Contains(before, "pool: llama") || strings.Contains(before, "key:") {
				t.Errorf("got %q", before)
			}
			c.put("/models/llama", `{"pool": "lamma"}`).want(t, 409, "it takes out of service: llama", "repeat this with ?force=true", `"model_without_endpoint"`)
			c.put("/models/llama?dry_run=true&force=true", `{"pool": "lamma"}`).want(t, 200, `"dry_run": true`, `"old": "llama"`, `"new": "lamma"`, `"model_without_endpoint"`)
			if after, same := c.get(t, "/models/llama"); after != before || same != etag {
				t.Errorf("it was changed: %s", after)
			}
			c.put("/models/llama", `{"pool": "llama"}`, "If-Match", `"0"`).want(t, 412, "get it again", `"field": "If-Match"`)
			c.put("/models/llama", `{"pool": "llama"}`, "If-None-Match", "*").want(t, 412, "models/llama exists already")
			c.put("/models/none", `{"pool": "llama"}`, "If-Match", "*").want(t, 412, "models/none does not exist")
			done := c.put("/models/llama", `{"pool": "llama", "aliases": ["default"]}`, "If-Match", `"0", `+etag).want(t, 200, `"action": "changed"`, `"field": "aliases"`)
			if _, now := c.get(t, "/models/llama"); now == etag || now != done.Header.Get("ETag") {
				t.Errorf("the ETag was %s, the change says %s, and now it is %s", etag, done.Header.Get("ETag"), now)
			}
			c.put("/models/new/one", `{"pool": "llama"}`, "If-None-Match", "*").want(t, 201, `"key": "models/new/one"`, `"action": "created"`)
			c.do("GET", "/api/v1/models/new%2Fone", "").want(t, 200, `"key": "models/new/one"`)
			c.do("DELETE", "/api/v1/models/new/one", "", "If-Match", `"0"`).want(t, 412)
			c.do("DELETE", "/api/v1/models/new/one", "").want(t, 200, `"action": "deleted"`)
			c.put("/models/copy", `{"pool": "llama", "registered_by": "gpus 1"}`).want(t, 201)
			if text, _ := c.get(t, "/models/copy"); strings.Contains(text, "registered_by") {
				t.Errorf("a document of an operator is %s", text)
			}
			c.do("DELETE", "/api/v1/models/copy", "").want(t, 200)
			c.do("DELETE", "/api/v1/endpoints/ams/gpu-1", "").want(t, 409, "it takes out of service: llama")
			c.do("DELETE", "/api/v1/endpoints/ams/gpu-1?force=true", "").want(t, 200, `"action": "deleted"`)
			c.do("PUT", "/api/v1/pools/llama", "# small\nkey: pools/llama\nqueue: {limit: 8}\n", "Content-Type", "text/yaml").want(t, 200)
			if text, _ := c.get(t, "/pools/llama"); text != "# small\nqueue: {limit: 8}\n" {
				t.Errorf("YAML is not stored as it was sent: %q", text)
			}
		})
	}
}

// A bad request is answered with the field and what to do.
func TestBadDocuments(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Documents: inFiles(t, smallFleet)})
	c.put("/models/llama", `{"pool": "llama", "retrys": {}}`).want(t, 400, `"field": "retrys"`, "accepted here")
	c.put("/models/llama", `{"pool": 5}`).want(t, 400, `"field": "pool"`)
	c.put("/models/llama", "{\n\"pool\": ").want(t, 400, "not valid JSON (line 2)")
	c.put("/models/llama", "pool: llama").want(t, 400, "not valid JSON")
	c.put("/models/llama", "").want(t, 400, "the request has no body")
	c.put("/models/llama", `[]`).want(t, 400, "must be a map of fields")
	c.put("/models/llama", `{"key": "models/qwen", "pool": "qwen"}`).want(t, 400, `"field": "key"`, `the body has \"models/qwen\", and the path \"models/llama\"`)
	c.put("/models/llama", `{"pool": "`+strings.Repeat("x", maxBody)+`"}`).want(t, 413, "at most 65536")
	c.do("PUT", "/api/v1/models/llama", "a: b\n---\nc: d\n", "Content-Type", typeYAML).want(t, 400, "more than one document")
	c.do("PUT", "/api/v1/models/llama", "{}").want(t, 415, `the header Content-Type is \"\": send one of application/json, application/yaml`)
	c.do("PUT", "/api/v1/models/llama", "{}", "Content-Type", "application/x-www-form-urlencoded").want(t, 415, "application/json")
	c.put("/models/llama", `{}`, "Content-Encoding", "gzip").want(t, 415, "must not be compressed")
	c.put("/models/llama?dryrun=true", `{"pool": "llama"}`).want(t, 400, "unknown parameter", "dry_run")
	c.put("/models/llama?dry_run=yes", `{"pool": "llama"}`).want(t, 400, "must be true or false")
	c.put("/models/a%20b", `{}`).want(t, 400, "a name must begin with")
	c.put("/colos/a/b", `{}`).want(t, 404)
	c.put("/keys/cn_abc_0123456789", `{"account": "acme"}`).want(t, 400, "never the key itself")
	if got := c.put("/models", `{}`).want(t, 405, "but GET"); got.Header.Get("Allow") != "GET" {
		t.Errorf("got %v", got.Header)
	}
	if got := c.do("PATCH", "/api/v1/keys/a", `{}`).want(t, 405); got.Header.Get("Allow") != "GET, PUT, DELETE" {
		t.Errorf("got %v", got.Header)
	}
	c.do("GET", "/api/v1/models/llama", "", "Accept", "text/html").want(t, 406, "application/yaml")
	c.do("GET", "/api/v1/models/none", "").want(t, 404, "there is no document models/none")
	c.do("GET", "/api/v1/models?limit=0", "").want(t, 400, `"field": "limit"`)
	c.do("GET", "/api/v1/models?limit=1", "").want(t, 200, `"next": "models/llama"`)
	c.do("GET", "/api/v1/models?after=models/llama", "").want(t, 200, "models/qwen")
	without := open(t, Config{NoStore: "it serves what its engines report"})
	without.put("/models/llama", `{"pool": "llama"}`).want(t, 409, "it serves what its engines report")
	without.do("GET", "/api/v1/models", "").want(t, 409, "it serves what its engines report")
}

// In etcd, the user of the token is the author, deletions that nodes would hold back are confirmed by force, and bad documents are shown.
func TestDocumentsInEtcd(t *testing.T) {
	t.Parallel()
	documents := inEtcd(t, smallFleet)
	var held error
	ignored := false
	c := open(t, Config{Documents: documents, CheckConfirm: func(_ context.Context, _ []string, ignoreUnreachable bool) error {
		ignored = ignoreUnreachable
		return held
	}})
	done := c.put("/accounts/acme", `{"weight": 3}`).want(t, 200, `"revision": `)
	history, err := etcd.History(t.Context(), documents.Client, etcd.DefaultPrefix)
	if err != nil || len(history) == 0 {
		t.Fatal(history, err)
	}
	if got := history[0].Author.String(); got != "alice via the admin API of edge-1: PUT /api/v1/accounts/acme" || fmt.Sprintf(`"%d"`, history[0].Revision) != done.Header.Get("ETag") {
		t.Errorf("got %s at %d, ETag %s", got, history[0].Revision, done.Header.Get("ETag"))
	}
	c.put("/accounts/acme", `{"weight": 3}`).want(t, 200, `"action": "unchanged"`, "differences\": []")

	c.do("DELETE", "/api/v1/accounts/acme", "").want(t, 409, "the last of all accounts", "?force=true")
	held = errors.New("it would also confirm models/x")
	c.do("DELETE", "/api/v1/accounts/acme?force=true", "").want(t, 409, "it would also confirm models/x")
	if ignored {
		t.Error("unreachable nodes are ignored without ignore_unreachable")
	}
	held = nil
	c.do("DELETE", "/api/v1/accounts/acme?force=true&ignore_unreachable=true", "").want(t, 200)
	if !ignored {
		t.Error("unreachable nodes are not ignored with ignore_unreachable")
	}
	if confirmed, err := documents.List(t.Context(), "deletions"); err != nil || len(confirmed) != 1 {
		t.Errorf("the deletion was not confirmed: %v %v", confirmed, err)
	}

	lease, err := documents.Client.Grant(t.Context(), 60)
	if err == nil {
		_, err = documents.Client.Put(t.Context(), etcd.DefaultPrefix+"endpoints/ams/r", "{url: 'http://127.0.0.1:9', pool: llama}", clientv3.WithLease(lease.ID))
	}
	if err == nil {
		_, err = documents.Client.Put(t.Context(), etcd.DefaultPrefix+"models/bad", "pol: llama")
	}
	if err != nil {
		t.Fatal(err)
	}
	c.do("GET", "/api/v1/endpoints", "").want(t, 200, `"registered": true`)
	c.do("DELETE", "/api/v1/endpoints/ams/r", "").want(t, 200, "registered under a lease")
	c.do("GET", "/api/v1/models/bad", "").want(t, 422, "pol: unknown field", "application/yaml")
	c.do("GET", "/api/v1/models", "").want(t, 200, `"invalid": "models/bad: pol: unknown field`, `"pool": "llama"`)
	c.do("GET", "/api/v1/models", "", "Accept", typeYAML).want(t, 200, "key: models/llama\n# the base model\n", "# not accepted: models/bad: pol: unknown field")
	c.get(t, "/models/bad")
	c.do("DELETE", "/api/v1/models/bad", "").want(t, 200)
}

// A new API key is shown once, and in no log; its author is in the history.
func TestNewAPIKeys(t *testing.T) {
	t.Parallel()
	documents := inEtcd(t, smallFleet)
	c := open(t, Config{Documents: documents})
	made := c.do("POST", "/api/v1/keys", `{"account": "acme", "id": "laptop"}`, jsonBody...).want(t, 201, `"key": "cn_laptop_`, `"document": "keys/laptop"`)
	c.do("POST", "/api/v1/keys", `{"account": "acme", "id": "laptop"}`, jsonBody...).want(t, 409, `"field": "id"`, "a key of the id laptop exists")
	c.do("POST", "/api/v1/keys", `{"account": "new"}`, jsonBody...).want(t, 201, "has no document, so it has the defaults")
	c.do("POST", "/api/v1/keys", `{"role": "worker", "id": "gpus"}`, jsonBody...).want(t, 201, `"key": "cn_gpus_`, `"role": "worker"`)
	c.do("GET", "/api/v1/keys/gpus", "").want(t, 200, `"role": "worker"`)
	c.do("POST", "/api/v1/keys", `{"role": "worker", "account": "acme"}`, jsonBody...).want(t, 400, `"field": "account"`, "belongs to no account")
	c.do("POST", "/api/v1/keys", `{"role": "admin"}`, jsonBody...).want(t, 400, `"field": "role"`, "must be worker")
	c.do("POST", "/api/v1/keys", `{}`, jsonBody...).want(t, 400, `"field": "account"`)
	c.do("POST", "/api/v1/keys", `{"account": "cn_a_bcdefghijk"}`, jsonBody...).want(t, 400, "looks like an API key")
	c.do("POST", "/api/v1/keys", `{"account": "acme", "expires": "2020-01-01"}`, jsonBody...).want(t, 400, `"field": "expires"`, "in the past")
	c.do("POST", "/api/v1/keys", `{"account": "acme", "expire": "720h"}`, jsonBody...).want(t, 400, `"field": "expire"`, "unknown field")
	c.do("POST", "/api/v1/keys", `{"account": 5}`, jsonBody...).want(t, 400, `"field": "account"`, "must be a string")
	c.do("POST", "/api/v1/keys", `account=acme`, "Content-Type", "application/x-www-form-urlencoded").want(t, 415)
	_, secret, _ := strings.Cut(made.body, `"cn_laptop_`)
	secret, _, _ = strings.Cut(secret, `"`)
	listed := c.do("GET", "/api/v1/keys", "").want(t, 200, "keys/laptop", "sha256").body
	if len(secret) < 16 || strings.Contains(listed+c.log.String(), secret) || made.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the key %q is in\n%s%s", secret, listed, c.log)
	}
	c.do("DELETE", "/api/v1/keys/laptop", "").want(t, 200)
}
