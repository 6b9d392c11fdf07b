package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// fakeNode is a node that does what it is asked for.
type fakeNode struct {
	drain *NodeDrain
	asked Loading
	fails error
}

func (n *fakeNode) actions() Actions {
	return Actions{
		Node: func() NodeState {
			return NodeState{Node: "edge-1", Document: "entries/edge-1", Role: "entry", Version: "v1", State: "active", Drain: n.drain, InFlight: 3}
		},
		Drain: func(by string, force bool) error {
			if !force {
				return &Error{Status: http.StatusConflict, Message: "it is the last one"}
			}
			n.drain = &NodeDrain{Since: time.Unix(1e9, 0).UTC(), By: by}
			return nil
		},
		Undrain: func(string) error {
			n.drain = nil
			return nil
		},
		Load: func(ctx context.Context, l Loading) (Loaded, error) {
			if left, ok := ctx.Deadline(); n.fails == nil && (!ok || time.Until(left) < maxLoading/2) {
				return Loaded{}, &Error{Status: http.StatusGatewayTimeout, Message: "there is not enough time to load a model"}
			}
			n.asked = l
			return Loaded{Endpoint: "endpoints/" + l.Colo + "/" + l.Endpoint, Engine: "vllm", Model: l.Model, Said: "Success"}, n.fails
		},
	}
}

// callActions calls each action, as described, with success.
func callActions(t *testing.T, v *validator) {
	t.Helper()
	asJSON := []string{"Content-Type", typeJSON}
	v.call(t, http.MethodGet, "/node", "").want(t, 200, `"role": "entry"`, `"in_flight": 3`)
	v.call(t, http.MethodPost, "/node/drain", "").want(t, 409, "it is the last one")
	v.call(t, http.MethodPost, "/node/drain?force=true", "").want(t, 200, `"by": "alice"`)
	v.call(t, http.MethodPost, "/node/undrain", "").want(t, 200, `"state": "active"`)
	v.call(t, http.MethodPost, "/endpoints/ams/gpu-1/drain", "").want(t, 200, `"field": "state"`, `"new": "draining"`)
	v.call(t, http.MethodPost, "/endpoints/ams/gpu-1/undrain?dry_run=true", "").want(t, 200, `"dry_run": true`)
	v.call(t, http.MethodPost, "/endpoints/ams/gpu-1/undrain", "").want(t, 200, `"old": "draining"`)
	v.call(t, http.MethodPost, "/endpoints/ams/gpu-9/drain", "").want(t, 404, "there is no document endpoints/ams/gpu-9")
	v.call(t, http.MethodPost, "/endpoints/ams/gpu-1/load", `{"model": "sql", "source": "/adapters/sql"}`, asJSON...).want(t, 200, `"model": "sql"`, `"models": null`)
	v.call(t, http.MethodPost, "/endpoints/ams/gpu-1/unload", `{"model": "sql"}`, asJSON...).want(t, 200)
	v.call(t, http.MethodPost, "/endpoints/ams/gpu-1/load", `{}`, asJSON...).want(t, 400, "model: is required")
}

// An endpoint drains by a change of its document, with the conditions, the review and the comments of any other change.
func TestEndpointDrains(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Documents: inFiles(t, smallFleet)})
	const path = "/api/v1/endpoints/ams/gpu-2"
	before := c.do("GET", path, "", "Accept", typeYAML).want(t, 200)
	c.do("POST", path+"/drain", "").want(t, 409, "models/qwen", "?force=true")
	c.do("POST", path+"/drain?force=true", "", "If-Match", `"other"`).want(t, 412)
	c.do("POST", path+"/drain?force=true", "", "If-Match", before.Header.Get("ETag")).want(t, 200, `"action": "changed"`, "model_without_endpoint")
	c.do("GET", path, "", "Accept", typeYAML).want(t, 200, before.body+"state: draining\n")
	c.do("POST", path+"/drain", "").want(t, 200, `"action": "unchanged"`)
	c.do("POST", path+"/undrain", "").want(t, 200, `"action": "changed"`)
	if after := c.do("GET", path, "", "Accept", typeYAML); after.body != before.body {
		t.Errorf("after a drain, the document is %q, and it was %q", after.body, before.body)
	}
	c.do("POST", path+"/drain?force=1", "").want(t, 400, "force")
	c.do("GET", path+"/drain", "").want(t, 404)
}

// The node gets what the request names, and its errors come back as they are.
func TestModelsAreLoaded(t *testing.T) {
	t.Parallel()
	n := &fakeNode{}
	c := open(t, Config{Actions: n.actions()})
	asJSON := []string{"Content-Type", typeJSON}
	c.do("POST", "/api/v1/endpoints/ams/a%2Fb/unload", `{"model": "sql:v2"}`, asJSON...).want(t, 200, `"said": "Success"`)
	if want := (Loading{Colo: "ams", Endpoint: "a/b", Model: "sql:v2", Unload: true}); n.asked != want {
		t.Errorf("the node was asked for %+v", n.asked)
	}
	n.fails = &Error{Status: http.StatusBadGateway, Message: "the engine answered 400: out of memory"}
	c.do("POST", "/api/v1/endpoints/ams/a/load", `{"model": "sql"}`, asJSON...).want(t, 502, "out of memory")
	c.do("POST", "/api/v1/endpoints/ams/a/load", `{"model": "sql", "path": "/x"}`, asJSON...).want(t, 400, `"field": "path"`)
	c.do("POST", "/api/v1/endpoints/ams/a/load", `{"model": "`+strings.Repeat("x", 2000)+`"}`, asJSON...).want(t, 400, "at most")
	without := open(t, Config{NoStore: "its documents are its flags"})
	without.do("POST", "/api/v1/endpoints/ams/a/load", `{"model": "sql"}`, asJSON...).want(t, 501)
	without.do("GET", "/api/v1/node", "").want(t, 501)
	without.do("POST", "/api/v1/node/drain", "").want(t, 501)
	without.do("POST", "/api/v1/endpoints/ams/a/drain", "").want(t, 409)
}
