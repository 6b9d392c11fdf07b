package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// startProcess starts a command line as a process of its own. Its engines are such processes, too.
func startProcess(t *testing.T, output *record, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), runAsCommand+"=1")
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// A worker without etcd registers the engine that it starts at a colonnade serve, and takes it out at its end. Its model is known afterwards.
func TestRegisterAtServe(t *testing.T) {
	p := servePlace(t)
	worker := run(t, "", "keys", "create", "-config", p.dir, "-role", "worker", "-id", "gpus").want(t)
	key := run(t, "", "keys", "create", "-config", p.dir, "-account", "acme", "-id", "app").want(t)
	file := writeTo(t, t.TempDir(), "gpus.key", worker)
	p.awaitStatus(key, http.StatusOK) // the model m of the place
	ask := func() int { return p.statusOf(key, "by-worker") }
	if got := ask(); got != http.StatusNotFound {
		t.Fatalf("before: %d", got)
	}
	address := etcdtest.FreeAddress(t)
	var output record
	cmd := startProcess(t, &output, "register", "-server", "http://"+p.admin, "-token-file", file, "-colo", "local", "-url", "http://"+address, "-gpus", "off",
		"--", os.Args[0], "engine", "-listen", address, "-models", "by-worker")
	testkit.WaitFor(t, "the engine serves", func() bool { return ask() == http.StatusOK })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, output.String())
	}
	if got := ask(); got != http.StatusServiceUnavailable {
		t.Errorf("afterwards: %d", got)
	}
	for _, text := range []string{output.String(), p.logs.String(), p.output.String()} {
		if secret := strings.TrimSpace(worker); strings.Contains(text, secret[len(secret)-10:]) {
			t.Errorf("the key is in the output:\n%s", text)
		}
	}
}

// A worker with a key that does not register engines ends before its engine is loaded, and says which key it needs.
func TestRegisterWithWrongKey(t *testing.T) {
	p := servePlace(t)
	key := run(t, "", "keys", "create", "-config", p.dir, "-account", "acme", "-id", "app").want(t)
	p.awaitStatus(key, http.StatusOK)
	file := writeTo(t, t.TempDir(), "app.key", key)
	address := etcdtest.FreeAddress(t)
	var output record
	cmd := startProcess(t, &output, "register", "-server", "http://"+p.admin, "-token-file", file, "-colo", "local", "-url", "http://"+address, "-gpus", "off",
		"--", os.Args[0], "engine", "-listen", address, "-models", "by-worker")
	err := cmd.Wait()
	for _, want := range []string{"refuses the token (403)", "keys create -role worker"} {
		if err == nil || !strings.Contains(output.String(), want) {
			t.Errorf("%v: %q is missing in\n%s", err, want, output.String())
		}
	}
	if strings.Contains(output.String(), fmt.Sprintf("listening on %s", address)) {
		t.Errorf("the engine was started:\n%s", output.String())
	}
}
