// Package readme runs the commands of the README.
package readme

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/internal/etcdtest"
	_ "colonnade/onebox" // with everything that the commands consist of: when it changes, the cached result of this test is invalid
)

// patience bounds every wait; the first build of the binaries takes the most of it.
const patience = 5 * time.Minute

const root = "../.."

// block is one fenced block of the README.
type block struct{ section, language, text string }

func blocks(t *testing.T) []block {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all []block
	section := ""
	fences := regexp.MustCompile("(?ms)^## ([^\n]*)$|^```([a-z]*)\n(.*?)^```$")
	for _, m := range fences.FindAllStringSubmatch(string(data), -1) {
		if m[1] != "" {
			section = m[1]
			continue
		}
		all = append(all, block{section, m[2], m[3]})
	}
	return all
}

// text joins the blocks of some sections in one language.
func text(t *testing.T, language string, sections ...string) string {
	t.Helper()
	var b strings.Builder
	for _, one := range blocks(t) {
		for _, s := range sections {
			if one.section == s && one.language == language {
				b.WriteString(one.text)
			}
		}
	}
	if b.Len() == 0 {
		t.Fatalf("the README has no %s in %q: this test must follow it", language, sections)
	}
	return b.String()
}

// elsewhere replaces the fixed addresses and directories of the README by those of this test.
type elsewhere struct {
	t   *testing.T
	dir string
	was []string // pairs for a replacer
}

func newElsewhere(t *testing.T) *elsewhere {
	e := &elsewhere{t: t, dir: t.TempDir()}
	for _, address := range []string{"127.0.0.1:8080", "127.0.0.1:9080", "127.0.0.1:8000", "127.0.0.1:8443", "127.0.0.1:9443", "127.0.0.1:8081", "127.0.0.1:9081", "127.0.0.1:9082"} {
		e.was = append(e.was, address, etcdtest.FreeAddress(t))
	}
	secure := etcdtest.FreeAddress(t)
	e.was = append(e.was, "127.0.0.1:8444", secure, "localhost:8444", strings.Replace(secure, "127.0.0.1", "localhost", 1))
	for _, file := range []string{"tls.key", "tls.crt", "fleet-ca", "$1.", "edge-1.crt", "ams-1.crt"} {
		e.was = append(e.was, file, e.dir+"/"+file)
	}
	e.was = append(e.was, "fleet.key", e.dir+"/fleet.key", "-data-dir var", "-data-dir "+e.dir+"/var", "pools.yaml", e.dir+"/pools.yaml", "deploy/fleet.yaml", e.dir+"/fleet.yaml")
	sample, err := os.ReadFile(filepath.Join(root, "deploy/fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(e.dir+"/fleet.yaml", []byte(e.move(string(sample))), 0o600); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *elsewhere) move(s string) string { return strings.NewReplacer(e.was...).Replace(s) }

func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not in the PATH", p)
		}
	}
}

// bash runs a script in the root of the repository, and ends its background processes.
func bash(t *testing.T, script string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "trap 'status=$?; jobs -p | xargs -r kill; wait; exit $status' EXIT\nset -e\n"+script)
	cmd.Dir, cmd.Env = root, append(os.Environ(), env...)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s\n--- said:\n%s", err, script, out)
	}
	return string(out)
}

// up runs `make up` until the test ends, with its etcd at an address.
func up(t *testing.T, e *elsewhere, etcd string) {
	t.Helper()
	// The slots are few and slow, so that also a machine that starts 64 processes slowly has too many requests for
	// them.
	flags := e.move("-listen 127.0.0.1:8080 -admin 127.0.0.1:9080 -etcd-listen ") + etcd + " -dir " + e.dir + "/fleet -slots 1 -ttft 200ms"
	cmd := exec.Command("make", "up", "UP_FLAGS="+flags)
	cmd.Dir = root
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		select {
		case <-ended: // make reports the interrupt by its own status
		case <-time.After(time.Minute):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
			t.Error("make up did not end after Ctrl-C")
		}
		if !strings.Contains(said.String(), "OpenAI(base_url=") {
			t.Errorf("make up did not say what to paste:\n%s", said.String())
		}
	})
	url := "http://" + e.move("127.0.0.1:8080") + "/health/ready"
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if answer, err := http.Get(url); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("make up is not ready")
		}
	}
}

func TestTryIt(t *testing.T) {
	needs(t, "make", "bash", "curl", "go")
	e := newElsewhere(t)
	etcd := etcdtest.FreeAddress(t)
	up(t, e, etcd)
	script := text(t, "sh", "Try it", "See what happened", "What a client may say", "Past saturation")
	for _, alone := range []string{"make up\n", "make test\n"} { // the first runs already, the second runs this test
		if !strings.Contains(script, alone) {
			t.Errorf("the README does not have the line %q", alone)
		}
		script = strings.Replace(script, alone, "", 1)
	}
	out := bash(t, e.move(script), "DATA_DIR="+e.dir+"/fleet/nodes", "COLONNADE_ETCD=http://"+etcd)
	for _, want := range []string{"inference", "data: [DONE]", "200 colo=ams", "200 colo=fra", "429 colo=", "retry-after=", "inference_requests_total{", "ok", "COLO", "goodput"} {
		if !strings.Contains(out, want) {
			t.Errorf("nowhere %q in what the README's commands say:\n%s", want, out)
		}
	}
	t.Run("JavaScript", func(t *testing.T) { e.program(t, "js", ".mjs", "js/node_modules", "node") })
	t.Run("Python", func(t *testing.T) { e.program(t, "python", ".py", "python/.venv", "python/.venv/bin/python") })
}

// program runs the README's program in one language, with the installed SDKs.
func (e *elsewhere) program(t *testing.T, language, suffix, installed, interpreter string) {
	sdk, err := filepath.Abs(filepath.Join(root, "test/sdk"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(sdk, installed)); err != nil {
		t.Skip("the SDKs are not installed: run test/sdk/install.sh")
	}
	// Modules are resolved from the program's directory.
	file, err := os.CreateTemp(filepath.Join(sdk, language), "readme-*"+suffix)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file.Name())
	if _, err := file.WriteString(e.move(text(t, language, "Try it"))); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(interpreter, "/") {
		interpreter = filepath.Join(sdk, interpreter)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, interpreter, file.Name()).CombinedOutput()
	if err != nil || len(strings.Fields(string(out))) < 20 {
		t.Errorf("%v, want some words:\n%s", err, out)
	}
}

func TestRunItForReal(t *testing.T) {
	needs(t, "make", "bash", "curl", "go")
	e := newElsewhere(t)
	store := etcdtest.Start(t)
	script := text(t, "sh", "Run it for real")
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Log("openssl is not in the PATH: what needs it is left out")
		for _, b := range blocks(t) {
			if strings.Contains(b.text, "openssl") {
				script = strings.Replace(script, b.text, "", 1)
			}
		}
	}
	script = e.move(script)
	wants := []string{"applied models/llama-3.1-8b-instruct", `"id":"llama-3.1-8b-instruct"`, "applied pools/llama-3.1-8b", "laptop"}
	if _, err := exec.LookPath("etcdctl"); err == nil {
		wants = append(wants, "OK\n")
	} else {
		t.Log("etcdctl is not in the PATH: its line is left out")
		script = regexp.MustCompile(`(?m)^etcdctl .*$`).ReplaceAllString(script, "")
	}
	if strings.Contains(script, "openssl") {
		wants = append(wants, "edge-1.crt: OK", "ams-1.crt: OK")
	}
	out := bash(t, script, "COLONNADE_ETCD=http://"+store.Address, "ETCDCTL_ENDPOINTS="+store.Address, "ETCDCTL_API=3")
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("nowhere %q in what the README's commands say:\n%s", want, out)
		}
	}
}
