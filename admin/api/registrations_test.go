package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"colonnade/accounts"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/worker/wire"
)

const (
	workerKey = "cn_gpus_ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	clientKey = "cn_laptop_ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	oldKey    = "cn_old_ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// fakeRegistrar keeps the last registration.
type fakeRegistrar struct {
	put     *Registration
	removed string
	away    bool // the store of keys does not answer
}

func (f *fakeRegistrar) registrar() Registrar {
	return Registrar{
		Key: func(_ context.Context, key string) (*fleet.APIKey, error) {
			switch {
			case f.away:
				return nil, errors.New("etcd is away")
			case key == workerKey:
				return &fleet.APIKey{ID: "gpus", Role: fleet.RoleWorker}, nil
			case key == clientKey:
				return &fleet.APIKey{ID: "laptop", Account: "acme"}, nil
			case key == oldKey:
				return nil, accounts.ErrExpiredKey
			}
			return nil, accounts.ErrBadKey
		},
		Put: func(_ context.Context, r *Registration) (wire.Answer, error) {
			f.put = r
			return wire.Answer{Node: "ams-1", Colo: "ams", TTLSeconds: wire.TTL.Seconds(), Stored: true, InFlight: 3}, nil
		},
		Remove: func(_ context.Context, node, boot string, key *fleet.APIKey) error {
			f.removed = node + "/" + boot
			if key != nil {
				f.removed += "/" + key.ID
			}
			return nil
		},
		PoolOf: func(model string) string { return map[string]string{"llama": "big"}[model] },
	}
}

const (
	workerDocument = `{"colo": "ams", "boot": "b1", "engine": {"endpoint": "gpu-7", "url": "http://10.0.0.7:8000", "state": "serving"}}`
	endpointText   = `"# Found: vLLM.\nurl: http://10.0.0.7:8000/v1\nengine: vllm\npool: llama\n"`
	goodBody       = `{"worker": ` + workerDocument + `, "endpoint": {"key": "endpoints/ams/gpu-7", "text": ` + endpointText + `}, ` +
		`"models": [{"key": "pools/llama", "text": "queue: {limit: 8}"}, {"key": "models/llama", "text": "pool: llama"}]}`
)

// A worker's key registers engines and does nothing else, and no other key registers any.
func TestKeysOfWorkers(t *testing.T) {
	t.Parallel()
	f := &fakeRegistrar{}
	c := open(t, Config{Documents: inFiles(t, smallFleet), Registrar: f.registrar()})
	put := func(token string) response {
		c.token = token
		return c.do("PUT", "/api/v1/registrations/gpu-machine-7", goodBody, jsonBody...)
	}
	put(workerKey).want(t, 200, `"ttl_seconds": 5`, `"in_flight": 3`, `"stored": true`, `"colo": "ams"`)
	if r := f.put; r.By != "key gpus" || r.APIKey == nil || r.Worker.Node != "gpu-machine-7" || r.Worker.Boot != "b1" ||
		r.Endpoint.URL != "http://10.0.0.7:8000" || len(r.Models) != 2 || len(r.Documents) != 2 || !strings.HasPrefix(string(r.Documents[1].Value), "# Found") {
		t.Errorf("got %+v", r)
	}
	put(aliceToken).want(t, 200)
	if r := f.put; r.By != "alice" || r.APIKey != nil {
		t.Errorf("got %+v", r)
	}
	put(clientKey).want(t, 403, "the API key laptop is for requests of the account acme", "keys create -role worker")
	put(oldKey).want(t, 401, "this API key has expired")
	put(workerKey+"x").want(t, 401, "no API key in force")
	put("").want(t, 401, "the header Authorization is missing")
	f.away = true
	put(workerKey).want(t, 503, "etcd is away")
	put(aliceToken).want(t, 200)
	f.away = false

	c.token = workerKey
	for _, path := range []string{"GET /api/v1/models", "GET /api/v1/keys", "POST /api/v1/keys", "PUT /api/v1/endpoints/ams/gpu-9", "POST /api/v1/node/drain", "GET /api/v1/nothing"} {
		method, path, _ := strings.Cut(path, " ")
		c.do(method, path, "{}", jsonBody...).want(t, 403, "the API key gpus has the role worker, and may do nothing but register engines")
	}
	c.do("DELETE", "/api/v1/registrations/gpu-machine-7", "").want(t, 400, `"field": "boot"`, "ends the registrations of its own processes alone")
	c.do("DELETE", "/api/v1/registrations/gpu-machine-7?boot=b1", "").want(t, 204)
	c.do("GET", "/api/v1/registrations?model=llama", "").want(t, 200, `"pool": "big"`)
	c.do("GET", "/api/v1/registrations?model=qwen", "").want(t, 200, `"pool": ""`)
	c.do("GET", "/api/v1/registrations?model=a%20b", "").want(t, 400, `"field": "model"`)
	if f.removed != "gpu-machine-7/b1/gpus" {
		t.Errorf("removed %q", f.removed)
	}
	for _, key := range []string{workerKey, clientKey, oldKey} {
		if strings.Contains(c.log.String(), key[len(key)-10:]) {
			t.Errorf("a key is in the log:\n%s", c.log)
		}
	}
}

// Without a file of tokens, the API has registrations and nothing else.
func TestRegistrationsWithoutTokens(t *testing.T) {
	t.Parallel()
	handler := Handler(Config{Node: "ams-1", Logger: slog.New(slog.DiscardHandler), Registrar: (&fakeRegistrar{}).registrar()})
	c := &client{handler: handler, token: workerKey}
	c.do("PUT", "/api/v1/registrations/w", goodBody, jsonBody...).want(t, 200)
	c.do("GET", "/api/v1/models", "").want(t, 403)
	c.token = aliceToken
	c.do("PUT", "/api/v1/registrations/w", goodBody, jsonBody...).want(t, 401, "colonnade keys create -role worker")
	c.do("GET", "/api/v1/models", "").want(t, 404, "-admin-tokens FILE")
	c.token = ""
	c.do("PUT", "/api/v1/registrations/w", goodBody, jsonBody...).want(t, 401, "this node has no file of tokens")
}

// A node that registers no engines says where they are registered.
func TestRegistrationsElsewhere(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	c.do("PUT", "/api/v1/registrations/w", goodBody, jsonBody...).want(t, 501, "colo server")
	c.do("DELETE", "/api/v1/registrations/w", "").want(t, 501, "colo server")
}

// An error names the field of a registration that is not right, and nothing of the registration is taken.
func TestRegistrationsAreChecked(t *testing.T) {
	t.Parallel()
	f := &fakeRegistrar{}
	c := open(t, Config{Registrar: f.registrar()})
	c.token = workerKey
	refused := func(old, replacement, field, message string) {
		t.Helper()
		body := strings.Replace(goodBody, old, replacement, 1)
		if body == goodBody {
			t.Fatalf("there is no %q", old)
		}
		c.do("PUT", "/api/v1/registrations/w", body, jsonBody...).want(t, 400, `"field": "`+field+`"`, message)
	}
	refused(`"boot": "b1"`, `"boot": "b1", "bot": 1`, "worker.bot", "unknown field")
	refused(`"boot": "b1", `, ``, "worker.boot", "the field is required")
	refused(`"state": "serving"`, `"state": "idle"`, "worker.engine.state", "must be one of starting")
	refused(workerDocument, `null`, "worker", "")
	refused(`"endpoints/ams/gpu-7"`, `"endpoints/fra/gpu-7"`, "endpoint.key", "it must be endpoints/ams/gpu-7")
	refused(`"endpoints/ams/gpu-7"`, `"models/gpu-7"`, "endpoint.key", "it must be endpoints/ams/gpu-7")
	refused(`engine: vllm`, `engine: vlm`, "endpoint.engine", "must be one of")
	refused(`engine: vllm`, `credential: file:other.key`, "endpoint.credential", "names no credentials of the colo server")
	refused(`engine: vllm`, `version: 6`, "endpoint.version", "sets no version of a document")
	refused(`engine: vllm`, `'version': 1`, "endpoint.version", "sets no version of a document")
	refused(`"pools/llama"`, `"accounts/llama"`, "models[0].key", "must be models/<model> or pools/<pool>")
	refused(`"pool: llama"`, `"pol: llama"`, "models[1].pol", "unknown field")
	refused(`"models"`, `"modles"`, "modles", "unknown field")
	refused(`"boot": "b1"`, `"boot": "b1", "registered_by": "x"`, "worker.registered_by", "is written by the server")
	refused(`engine: vllm`, `registered_by: x`, "endpoint.registered_by", "is written by the server")
	refused(`"pool: llama"`, `"registered_by: x"`, "models[1].registered_by", "is written by the server")
	refused(`"pools/llama"`, `"pools/other"`, "models[0].key", "the endpoint belongs to the pool llama")
	refused(`"queue: {limit: 8}"`, `"balance: {policy: round_robin}"`, "models[0].balance", "sets only queue of pools/llama")
	refused(`"pool: llama"`, `"pool: other"`, "models[1].pool", "is other, and the endpoint belongs to the pool llama")
	refused(`"models/llama", "text": "pool: llama"`, `"models/other", "text": "{}"`, "models[1].pool", "is other, and the endpoint")
	for _, field := range []string{"upstream_name: x", "adapter: x", "fallback: [x]", "allow_fields: [models]", "cost: {unit: u, input: 1}", "version: 99"} {
		name, _, _ := strings.Cut(field, ":")
		refused(`"pool: llama"`, `"pool: llama\n`+field+`"`, "models[1]."+name, "sets only type, pool, aliases of models/llama")
	}
	refused(`"pool: llama"`, `"pool: llama\naliases: [default]"`, "models[1].aliases", "no other name than this one without :latest")
	refused(`, "endpoint": {"key": "endpoints/ams/gpu-7", "text": `+endpointText+`}`, ``, "models", "only together with the endpoint")
	many := strings.Repeat(`{"key": "models/m", "text": "{}"},`, wire.MaxModels+1)
	c.do("PUT", "/api/v1/registrations/w", `{"worker": `+workerDocument+`, "models": [`+strings.TrimSuffix(many, ",")+`]}`, jsonBody...).want(t, 400, `"field": "models"`)
	c.do("PUT", "/api/v1/registrations/w", strings.Repeat(" ", wire.MaxBody)+goodBody, jsonBody...).want(t, 413)
	c.do("PUT", "/api/v1/registrations/a%2Fb", goodBody, jsonBody...).want(t, 400, "must not contain a slash")
	c.do("DELETE", "/api/v1/registrations/a%2Fb", "").want(t, 400, "must not contain a slash")
	if f.put != nil || f.removed != "" {
		t.Errorf("taken: %+v, %q", f.put, f.removed)
	}
	c.token = aliceToken // an operator may name credentials: they could by the document as well
	c.do("PUT", "/api/v1/registrations/w", strings.Replace(goodBody, `engine: vllm`, `credential: file:own.key`, 1), jsonBody...).want(t, 200)
	c.do("PUT", "/api/v1/registrations/w", `{"worker": `+workerDocument+`}`, jsonBody...).want(t, 200)
	if f.put.Endpoint != nil || len(f.put.Documents) != 1 {
		t.Errorf("without an endpoint: %+v", f.put)
	}
}

// Documents that a worker's key registers name the key, and an endpoint gets no credential of the colo, whatever the defaults say.
func TestRegistrationsAreMarked(t *testing.T) {
	t.Parallel()
	f := &fakeRegistrar{}
	c := open(t, Config{Registrar: f.registrar()})
	c.token = workerKey
	body := strings.Replace(goodBody, `"models/llama"`, `"models/llama:latest"`, 1)
	body = strings.Replace(body, `"pool: llama"`, `"# a comment\npool: llama\naliases: [llama]"`, 1)
	c.do("PUT", "/api/v1/registrations/w", body, jsonBody...).want(t, 200)
	mark := (&fleet.APIKey{ID: "gpus"}).Mark()
	set := document.NewSet()
	_ = set.Put("defaults", []byte("{engines: {vllm: {credential: 'file:own.key'}}, model: {pool: operators}}"), 1)
	for _, d := range append(f.put.Documents, f.put.Models...) {
		if err := set.Put(d.Key, d.Value, 1); err != nil {
			t.Error(err)
		}
	}
	table := set.Table()
	e := table.EndpointsOf("ams")[0]
	m, _ := table.Model("llama")
	if e.RegisteredBy != mark || e.Credential != "" || e.Engine != "vllm" || m == nil || m.RegisteredBy != mark || m.Pool != "llama" || table.Workers()[0].RegisteredBy != mark {
		t.Errorf("%+v %+v %+v", e, m, table.Workers()[0])
	}
	if !strings.HasPrefix(string(f.put.Models[1].Value), "# a comment\n") || f.put.Worker.RegisteredBy != mark {
		t.Errorf("%q", f.put.Models[1].Value)
	}
	c.token = aliceToken
	c.do("PUT", "/api/v1/registrations/w", goodBody, jsonBody...).want(t, 200)
	if r := f.put; r.Worker.RegisteredBy != "" || strings.Contains(string(r.Documents[1].Value), "registered_by") {
		t.Errorf("%+v", r)
	}
}

// checkRestricted checks what must hold for each registration by a key.
func checkRestricted(t *testing.T, r *Registration) {
	t.Helper()
	set := document.NewSet()
	_ = set.Put("defaults", []byte("{endpoint: {credential: 'file:own.key'}, model: {pool: operators}}"), 1)
	for _, d := range append(r.Documents, r.Models...) {
		_ = set.Put(d.Key, d.Value, 1)
	}
	table := set.Table()
	for _, e := range table.EndpointsOf(r.Worker.Colo) {
		if e.Credential != "" || e.RegisteredBy != r.APIKey.Mark() {
			t.Errorf("%+v", e)
		}
	}
	for _, m := range table.Models() {
		if m.Pool != r.Endpoint.Pool || m.UpstreamName != m.Name || m.RegisteredBy != r.APIKey.Mark() {
			t.Errorf("%+v", m)
		}
	}
}

// Bytes of a worker make no registration that is not valid by itself.
func FuzzRegistration(f *testing.F) {
	for _, seed := range []string{goodBody, `{"worker": ` + workerDocument + `}`, `{}`, `{"worker": null}`, `{"worker": {}, "models": [{}]}`, strings.ReplaceAll(goodBody, "llama", "\\u0000"),
		strings.Replace(goodBody, "url: ", "url: &a ", 1)} {
		f.Add(seed)
	}
	registrar := &fakeRegistrar{}
	handler := Handler(Config{Logger: slog.New(slog.DiscardHandler), Registrar: registrar.registrar()})
	f.Fuzz(func(t *testing.T, body string) {
		registrar.put = nil
		c := &client{handler: handler, token: workerKey}
		answered := c.do("PUT", "/api/v1/registrations/w", body, jsonBody...)
		if r := registrar.put; (r != nil) != (answered.StatusCode == http.StatusOK) || answered.StatusCode >= 500 {
			t.Fatalf("answered %d, and took %+v", answered.StatusCode, r)
		} else if r != nil {
			for _, d := range append(r.Documents, r.Models...) {
				if err := document.Check(d.Key, d.Value); err != nil {
					t.Error(err)
				}
			}
			checkRestricted(t, r)
		}
	})
}
