package deploy_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// imageEnvironment returns the variables that the Dockerfile sets, with a data directory of the test.
func imageEnvironment(t *testing.T) (environment []string) {
	t.Helper()
	for _, in := range dockerfile(t) {
		if in.name == "ENV" {
			environment = append(environment, strings.ReplaceAll(in.args, "/var/lib/colonnade", t.TempDir()))
		}
	}
	return environment
}

// imageCommand returns the command that the image runs by default, with another address to listen at.
func imageCommand(t *testing.T, listen string) (args []string) {
	t.Helper()
	for _, in := range dockerfile(t) {
		if in.name == "CMD" {
			args = list(t, strings.Replace(in.args, `":8080"`, `"`+listen+`"`, 1))
		}
	}
	return args
}

const helloBody = `{"model":"default","messages":[{"role":"user","content":"hello"}]}`

// The image's default command serves an engine that only COLONNADE_ENGINE names.
func TestImageServesAnEngine(t *testing.T) {
	engine := etcdtest.FreeAddress(t)
	start(t, nil, "colonnade", "engine", "-listen", engine, "-models", "tiny")
	listen := etcdtest.FreeAddress(t)
	environment := append(imageEnvironment(t), "COLONNADE_ENGINE=http://"+engine, "COLONNADE_ADMIN=127.0.0.1:0")
	served := start(t, environment, imageCommand(t, listen)...)
	testkit.WaitFor(t, "a model to be listed", func() bool {
		status, models := testkit.Get("http://" + listen + "/v1/models")
		name := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(models)
		if status != http.StatusOK || name == nil {
			return false
		}
		return post(listen, "/v1/chat/completions", strings.Replace(helloBody, "default", name[1], 1)).status == http.StatusOK
	})
	endWell(t, served.Stop(syscall.SIGTERM))
}

// The image's default command says what to set if no variable names an engine or documents.
func TestImageWithoutAnEngine(t *testing.T) {
	args := imageCommand(t, "127.0.0.1:0")
	cmd := exec.Command(testkit.Binary(t, args[0]), args[1:]...)
	cmd.Env = append(imageEnvironment(t), "COLONNADE_ENGINE=", "COLONNADE_CONFIG=")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "COLONNADE_ENGINE") || !strings.Contains(string(out), "COLONNADE_CONFIG") {
		t.Errorf("it ends with %v and prints\n%s", err, out)
	}
}

// The command of colonnade.service serves serve.yaml: keys of both accounts, made while it runs, reach both engines, and nothing else does.
func TestServeSample(t *testing.T) {
	dir, e := t.TempDir(), &engines{}
	documents := text(t, "serve.yaml")
	for _, m := range regexp.MustCompile(`key: endpoints/(\S+)\nurl: (\S+)`).FindAllStringSubmatch(documents, -1) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.serve(w, r, m[1]) }))
		t.Cleanup(server.Close)
		documents = strings.Replace(documents, m[2], server.URL, 1)
	}
	if err := os.WriteFile(filepath.Join(dir, "serve.yaml"), []byte(documents), 0o600); err != nil {
		t.Fatal(err)
	}
	u, state, listen := readUnit(t, "colonnade.service"), t.TempDir(), etcdtest.FreeAddress(t)
	command := strings.Fields(strings.ReplaceAll(u.one(t, "ExecStart"), "%S", state))
	environment := []string{"COLONNADE_CONFIG=" + dir, "COLONNADE_LISTEN=" + listen, "COLONNADE_ADMIN=127.0.0.1:0"}
	served := start(t, environment, append([]string{filepath.Base(command[0])}, command[1:]...)...)
	testkit.WaitFor(t, "a client without a key to be refused", func() bool { return post(listen, "/v1/chat/completions", helloBody).status == http.StatusUnauthorized })
	for _, account := range []string{"app", "reports"} {
		out, err := exec.Command(testkit.Binary(t, "colonnade"), "keys", "create", "-config", dir, "-account", account).Output()
		if err != nil {
			t.Fatalf("keys create: %v", err)
		}
		testkit.WaitFor(t, "a request of "+account+" to be served", func() bool {
			status, _, _ := testkit.Post("http://"+listen+"/v1/chat/completions", helloBody, "Authorization", "Bearer "+strings.TrimSpace(string(out)))
			return status == http.StatusOK
		})
	}
	for _, want := range []string{"local/gpu-1 GET .*", "local/gpu-2 GET .*", `local/gpu-. POST /v1/chat/completions  .*"model":"meta-llama/Llama-3.1-8B-Instruct".*`} {
		testkit.WaitFor(t, "an engine to see "+want, func() bool { return e.asked(want) })
	}
	endWell(t, served.Stop(syscall.SIGTERM))
	if logs, _ := filepath.Glob(filepath.Join(state, "colonnade/serve/events/*/*.log")); len(logs) == 0 {
		t.Error("it has written no events below the state directory")
	}
}
