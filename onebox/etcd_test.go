package onebox_test

import (
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// A page that a browser of this machine shows can neither write documents in the embedded etcd nor read its answers.
func TestPagesCannotUseEtcd(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engine: fleettest.QuickEngine(1)}, "")
	for _, path := range []string{"/v3/kv/put", "/v3beta/kv/put", "/v3/kv/range", "/v3/watch", "/version", "/metrics"} {
		status, header, text := testkit.Post(f.Etcd+path, `{"key":"L2NvbG9ubmFkZS92MS9tb2RlbHMvZXZpbA==","value":"e30="}`, "Origin", "https://evil.example")
		if status == 200 && path != "/metrics" || header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %v %s", path, status, header, text)
		}
	}
}
