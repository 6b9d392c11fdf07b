package api

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"colonnade/change"
)

const smallFleet = `# the base model
key: models/llama
pool: llama
---
key: models/qwen
pool: qwen # of Alibaba
---
key: pools/llama
queue: {limit: 64}
---
key: colos/ams
region: weur
---
key: endpoints/ams/gpu-1
url: http://127.0.0.1:8001
pool: llama
---
key: endpoints/ams/gpu-2
url: http://127.0.0.1:8002
pool: qwen
---
key: accounts/acme
weight: 2
`

// inFiles returns documents in a file.
func inFiles(t *testing.T, text string) *change.Documents {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fleet.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &change.Documents{Path: dir}
}

// validator checks requests and answers against the description of an API.
type validator struct {
	*client
	router routers.Router
	called map[string]bool // operations that have answered without an error
}

func newValidator(t *testing.T, c *client) *validator {
	t.Helper()
	text := c.do("GET", "/api/v1/openapi.json", "").want(t, 200).body
	described, err := openapi3.NewLoader().LoadFromData([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := described.Validate(t.Context()); err != nil {
		t.Fatalf("the description is not valid: %v", err)
	}
	described.Servers = openapi3.Servers{{URL: "http://127.0.0.1:9080/api/v1"}}
	router, err := legacy.NewRouter(described)
	if err != nil {
		t.Fatal(err)
	}
	return &validator{client: c, router: router, called: map[string]bool{}}
}

// call sends a request, and checks that the request and its answer are as the description says.
func (v *validator) call(t *testing.T, method, path, body string, headers ...string) response {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:9080/api/v1"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+v.token)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	route, names, err := v.router.FindRoute(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: names, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true}}
	asked := openapi3filter.ValidateRequest(t.Context(), input)
	answered := v.do(method, "/api/v1"+path, body, headers...)
	if (asked == nil) != (answered.StatusCode < 400) && answered.StatusCode != 404 && answered.StatusCode != 409 && answered.StatusCode != 412 {
		t.Errorf("%s %s: answered with %d, and by the description the request has the error %v", method, path, answered.StatusCode, asked)
	}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: answered.StatusCode, Header: answered.Header,
		Body: io.NopCloser(bytes.NewReader([]byte(answered.body))), Options: input.Options,
	})
	if err != nil {
		t.Errorf("%s %s: the answer %d is not as described: %v\n%s", method, path, answered.StatusCode, err, answered.body)
	}
	if answered.StatusCode < 400 {
		v.called[route.Operation.OperationID] = true
	}
	return answered
}

// Each operation that is described exists, takes what is described, and answers what is described; and no other exists.
func TestOperationsAreAsDescribed(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Documents: inFiles(t, smallFleet), Actions: new(fakeNode).actions(), Registrar: new(fakeRegistrar).registrar()})
	v := newValidator(t, c)
	asJSON, asYAML := []string{"Content-Type", typeJSON}, []string{"Content-Type", typeYAML, "Accept", typeYAML}
	for _, d := range []struct{ path, body string }{
		{"/defaults", `{"pool": {"queue": {"limit": 32}}}`}, {"/limits", `{"requests_per_minute": 1000}`},
		{"/models/llama", `{"pool": "llama", "aliases": ["default"]}`}, {"/pools/llama", `{"queue": {"limit": 32}}`},
		{"/endpoints/ams/gpu-3", `{"url": "http://127.0.0.1:8003", "pool": "llama"}`}, {"/colos/fra", `{"region": "weur"}`},
		{"/flows/llama", `{"regions": {"weur": {"ams": 1}}}`}, {"/accounts/acme", `{"weight": 3}`},
		{"/keys/laptop", `{"account": "acme", "sha256": "` + strings.Repeat("ab", 32) + `"}`},
		{"/issuers/corp", `{"issuer": "https://id.example.com", "audience": "colonnade"}`},
		{"/captures/debug", `{"account": "acme", "until": "2026-11-23T12:00:00Z", "sink": "file:/var/lib/colonnade/acme.jsonl"}`},
		{"/sinks/billing", `{"url": "https://collector.example.com/events"}`},
	} {
		kind, _, _ := strings.Cut(d.path[1:], "/")
		status := 201
		if strings.Contains(smallFleet, "key: "+d.path[1:]+"\n") {
			status = 200
		}
		v.call(t, http.MethodPut, d.path, d.body, asJSON...).want(t, status, `"key": "`+d.path[1:]+`"`)
		v.call(t, http.MethodGet, d.path, "").want(t, 200, `"key": "`+d.path[1:]+`"`)
		if d.path != "/"+kind {
			v.call(t, http.MethodGet, "/"+kind, "").want(t, 200, `"`+d.path[1:]+`"`)
			v.call(t, http.MethodGet, "/"+kind+"?limit=1", "", "Accept", typeYAML).want(t, 200, "key: "+kind+"/")
		}
		v.call(t, http.MethodDelete, d.path+"?force=true", "").want(t, 200, `"action": "deleted"`)
	}
	got := v.call(t, http.MethodGet, "/models/qwen", "").want(t, 200)
	v.call(t, http.MethodGet, "/models/qwen", "", "If-None-Match", got.Header.Get("ETag")).want(t, 304)
	text := v.call(t, http.MethodGet, "/models/qwen", "", "Accept", typeYAML).want(t, 200).body
	v.call(t, http.MethodPut, "/models/qwen", text, asYAML...).want(t, 200, `"action": "unchanged"`)
	v.call(t, http.MethodPut, "/models/qwen?dry_run=true", got.body, "Content-Type", typeJSON, "If-Match", got.Header.Get("ETag")).want(t, 200)
	v.call(t, http.MethodPut, "/models/qwen", "{}", "Content-Type", typeJSON, "If-Match", `"0"`).want(t, 412)
	v.call(t, http.MethodPut, "/models/qwen", `{"nonsense": 1}`, asJSON...).want(t, 400, `"field": "nonsense"`)
	v.call(t, http.MethodDelete, "/models/none", "").want(t, 404, "there is no document models/none")
	v.call(t, http.MethodGet, "/endpoints/ams?after=endpoints/ams/gpu-1", "").want(t, 200, "gpu-2")
	v.call(t, http.MethodPost, "/keys", `{"account": "acme", "expires": "720h"}`, asJSON...).want(t, 201, `"key": "cn_`)
	v.call(t, http.MethodGet, "/openapi.json", "")
	callActions(t, v)
	v.call(t, http.MethodPut, "/registrations/gpu-7", goodBody, asJSON...).want(t, 200, `"ttl_seconds": 5`)
	v.call(t, http.MethodPut, "/registrations/gpu-7", `{"worker": {}, "nonsense": 1}`, asJSON...).want(t, 400, "nonsense")
	v.call(t, http.MethodGet, "/registrations?model=llama", "").want(t, 200, `"pool": "big"`)
	v.call(t, http.MethodDelete, "/registrations/gpu-7?boot=b1", "").want(t, 204)
	for _, r := range (&api{}).routes() {
		if !v.called[r.id] {
			t.Errorf("%s %s (%s) has not been called, or only with errors", r.method, r.path, r.id)
		}
	}
	if len(v.called) != len((&api{}).routes()) {
		t.Errorf("%d operations are described, and %d in the table", len(v.called), len((&api{}).routes()))
	}
}
