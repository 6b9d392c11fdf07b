package deploy_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// The fleet of external.yaml sends the provider what its own colo has no capacity for, under the provider's name for the model and with the
// provider's key, which the own engines do not get. A model without that step stays at home.
func TestExternalRun(t *testing.T) {
	e := &engines{}
	key := testkit.KeyFile(t)
	store := []string{"COLONNADE_ETCD=http://" + etcdtest.Start(t).Address}
	documents := text(t, "external.yaml")
	for _, m := range regexp.MustCompile(`key: endpoints/(\S+)[^\n]*\nurl: (\S+)`).FindAllStringSubmatch(documents, -1) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.serve(w, r, m[1]) }))
		t.Cleanup(server.Close)
		documents = strings.Replace(documents, m[2], server.URL+"/v1", 1)
	}
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	apply := func(documents string, flags ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(documents), 0o600); err != nil {
			t.Fatal(err)
		}
		endWell(t, start(t, store, append([]string{"colonnade", "config", "apply", file}, flags...)...).Wait())
	}
	apply(documents)
	start(t, store, "colo", "-colo", "ams", "-node", "ams-1", "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-key-file", key)
	start(t, append(store, "COLONNADE_CREDENTIAL_API=provider-secret"), "colo", "-colo", "cloud", "-node", "cloud-1", "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-key-file", key)
	entry := etcdtest.FreeAddress(t)
	start(t, store, "entry", "-open", "-node", "edge-1", "-region", "weur", "-listen", entry, "-admin", "127.0.0.1:0", "-key-file", key)
	ask := func(model, colo string) {
		t.Helper()
		testkit.WaitFor(t, model+" from "+colo, func() bool {
			got := post(entry, "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"hello"}]}`)
			return got.status == 200 && got.colo == colo
		})
	}
	ask("default", "ams")
	ask("llama-3.1-8b-instruct-here", "ams")
	apply(strings.Replace(documents, "concurrency: 32", "concurrency: 0", 1), "-force") // it takes the model that stays at home out of service
	ask("default", "cloud")
	if got := post(entry, "/v1/chat/completions", `{"model":"llama-3.1-8b-instruct-here","messages":[]}`); got.status != 429 && got.status != 503 {
		t.Errorf("the model that stays at home: %d from %q", got.status, got.colo)
	}
	for _, want := range []string{
		`ams/gpu-1 POST /v1/chat/completions  .*"model":"meta-llama/Llama-3.1-8B-Instruct".*`,
		`cloud/api GET /v1/models Bearer provider-secret `,
		`cloud/api POST /v1/chat/completions Bearer provider-secret .*"model":"llama-3.1-8b-instruct-turbo".*`,
	} {
		testkit.WaitFor(t, "an engine to see "+want, func() bool { return e.asked(want) })
	}
	for _, never := range []string{`ams/.*provider-secret.*`, `cloud/api POST .*meta-llama.*`} {
		if e.asked(never) {
			t.Errorf("an engine has seen %s", never)
		}
	}
}
