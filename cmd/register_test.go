package cmd_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// registered is an etcd for the command register.
type registered struct {
	t    *testing.T
	etcd string
}

func newRegistered(t *testing.T) *registered {
	t.Helper()
	r := &registered{t, "http://" + etcdtest.Start(t).Address}
	out, err := func() ([]byte, error) {
		cmd := exec.Command(testkit.Binary(t, "colonnade"), "config", "apply", "-etcd", r.etcd, "-")
		cmd.Stdin = strings.NewReader("key: colos/ams\nregion: weur\n")
		return cmd.CombinedOutput()
	}()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return r
}

// start starts the command for an engine at an address.
func (r *registered) start(address string, args ...string) *testkit.Process {
	r.t.Helper()
	return start(r.t, "colonnade", append([]string{"register", "-colo", "ams", "-etcd", r.etcd, "-url", address, "-node", "gpu-1"}, args...)...)
}

// engine returns the command of a simulated engine.
func (r *registered) engine(address string) []string {
	return []string{testkit.Binary(r.t, "colonnade"), "engine", "-kind", "vllm", "-models", "tiny", "-listen", address}
}

// script returns a shell script around an engine, in which "$@" is the engine.
func (r *registered) script(address, script string) []string {
	return append([]string{"--", "sh", "-c", script, "sh"}, r.engine(address)...)
}

// document returns a document as etcd has it, or an error.
func (r *registered) document(key string) string {
	out, _ := run(r.t, "colonnade", "config", "get", "-etcd", r.etcd, key)
	return out
}

func await(t *testing.T, p *testkit.Process, text string) {
	t.Helper()
	testkit.WaitFor(t, text, func() bool { return strings.Contains(p.Output(), text) })
}

// helper returns the process that the output names after "helper ".
func helper(t *testing.T, p *testkit.Process) int {
	t.Helper()
	await(t, p, "engine | helper ")
	_, after, _ := strings.Cut(p.Output(), "engine | helper ")
	number, _, _ := strings.Cut(after, "\n")
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// isGone reports whether a process has ended.
func isGone(pid int) bool {
	out, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	state := strings.TrimSpace(string(out))
	return state == "" || strings.HasPrefix(state, "Z")
}

func status(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// register as an operator starts it: the engine is there while it serves, and gone after the end, whatever has ended it.
func TestRegister(t *testing.T) {
	t.Parallel()
	r := newRegistered(t)
	address := etcdtest.FreeAddress(t)
	key := "endpoints/ams/" + strings.Replace(address, ":", "-", 1)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		p := r.start(address, append([]string{"-set", "weight=2", "-concurrency", "3"}, r.script(address, `sleep 1000 & echo helper $!; exec "$@"`)...)...)
		await(t, p, "colonnade | serving: "+key+" in the pool tiny, concurrency 3\n")
		if d := r.document(key); !strings.Contains(d, "weight: 2\n") || !strings.Contains(d, "concurrency: 3\n") {
			t.Errorf("%s", d)
		}
		if out := p.Output(); !strings.Contains(out, "engine | simulated engine at http://"+address) || !strings.Contains(out, "colonnade | starting: waiting for http://"+address) {
			t.Errorf("output:\n%s", out)
		}
		if err := p.Stop(signal); err != nil {
			t.Errorf("%v: %v", signal, err)
		}
		if d := r.document(key); !strings.Contains(d, "there is no document") {
			t.Errorf("after %v: %s", signal, d)
		}
		if pid := helper(t, p); !isGone(pid) {
			t.Errorf("%v leaves process %d of the engine", signal, pid)
		}
	}
}

// The second signal kills the engine and ends the process at once.
func TestSecondSignalKillsTheEngine(t *testing.T) {
	t.Parallel()
	r := newRegistered(t)
	address := etcdtest.FreeAddress(t)
	p := r.start(address, append([]string{"-stop-timeout", "10m"}, r.script(address, `trap '' TERM; echo helper $$; "$@" & while :; do sleep 0.1; done`)...)...)
	await(t, p, "serving: ")
	_ = p.Signal(syscall.SIGTERM)
	await(t, p, "stopping the engine, within 10m0s")
	var exit *exec.ExitError
	if err := p.Stop(syscall.SIGTERM); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v, want the signal", err)
	}
	pid := helper(t, p)
	testkit.WaitFor(t, "the end of the engine", func() bool { return isGone(pid) })
}

// The process ends with the status of its engine.
func TestRegisterHasTheStatusOfTheEngine(t *testing.T) {
	t.Parallel()
	r := newRegistered(t)
	address := etcdtest.FreeAddress(t)
	f := func(want int, text string, command ...string) {
		t.Helper()
		p := r.start(address, append([]string{"-restart=false", "--"}, command...)...)
		if got := status(p.Wait()); got != want || !strings.Contains(p.Output(), text) {
			t.Errorf("%v: status %d, want %d:\n%s", command, got, want, p.Output())
		}
	}
	f(7, "colonnade: the engine has ended (exit status 7)\n", "sh", "-c", "exit 7")
	f(139, "(signal: segmentation fault)", "sh", "-c", "kill -SEGV $$")
	f(0, "", "true")
	f(127, `colonnade: cannot start the engine "no-such-engine": executable file not found in $PATH; give the command after --`, "no-such-engine")
}

// The process goes on when the reader of its output has gone, and its engine with it.
func TestRegisterOutlivesTheReaderOfItsOutput(t *testing.T) {
	t.Parallel()
	r := newRegistered(t)
	address := etcdtest.FreeAddress(t)
	args := append([]string{"register", "-colo", "ams", "-etcd", r.etcd, "-url", address}, r.script(address, `while :; do echo noise; sleep 0.05; done & exec "$@"`)...)
	cmd := exec.Command("sh", append([]string{"-c", `"$@" | head -n 1; echo gone`, "sh", testkit.Binary(t, "colonnade")}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := testkit.Start(t, cmd)
	key := "endpoints/ams/" + strings.Replace(address, ":", "-", 1)
	await(t, p, "colonnade | serving: "+key)
	testkit.WaitFor(t, "many lines without a reader", func() bool {
		status, body := testkit.Get(fmt.Sprintf("http://%s/stats", address))
		return status == 200 && strings.Contains(body, "served")
	})
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	_ = p.Wait()
	testkit.WaitFor(t, "the end of the engine", func() bool {
		status, _ := testkit.Get(fmt.Sprintf("http://%s/stats", address))
		return status == 0
	})
}

// Without etcd, a process that serves one place has the registration: its requests reach the engine as soon as that answers.
func TestRegisterAtServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	documents, token := filepath.Join(dir, "place"), filepath.Join(dir, "gpus.key")
	if err := os.Mkdir(documents, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(documents, "place.yaml"), []byte("key: colos/ams\nregion: weur\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := exec.Command(testkit.Binary(t, "colonnade"), "keys", "create", "-role", "worker", "-id", "gpus", "-config", documents).Output()
	if err == nil {
		err = os.WriteFile(token, key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	public, admin, address := etcdtest.FreeAddress(t), etcdtest.FreeAddress(t), etcdtest.FreeAddress(t)
	start(t, "colonnade", "serve", "-config", documents, "-colo", "ams", "-listen", public, "-admin", admin, "-open")
	awaitEngine := func(want int) {
		testkit.WaitFor(t, fmt.Sprintf("the status %d", want), func() bool {
			status, _ := chat(public, "", false)
			return status == want
		})
	}
	awaitEngine(404)
	r := &registered{t: t}
	p := start(t, "colonnade", append([]string{"register", "-colo", "ams", "-server", "http://" + admin, "-token-file", token, "-url", address, "--"}, r.engine(address)...)...)
	awaitEngine(200)
	if err := p.Stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	awaitEngine(503)

	if err := os.WriteFile(token, []byte("cn_gpus_wrong00000000000000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p = start(t, "colonnade", append([]string{"register", "-colo", "ams", "-server", "http://" + admin, "-token-file", token, "-url", address, "--"}, r.engine(address)...)...)
	if got := status(p.Wait()); got != 1 || strings.Contains(p.Output(), "starting the engine") || !strings.Contains(p.Output(), "colonnade: cannot register the engine: ") {
		t.Errorf("with a wrong token: status %d\n%s", got, p.Output())
	}
}

// The document of a worker whose admin listener has no address of its own has that of the machine towards etcd, so that others reach it.
func TestRegisterNamesAnAdminAddressThatOthersReach(t *testing.T) {
	t.Parallel()
	r := newRegistered(t)
	address := etcdtest.FreeAddress(t)
	p := r.start(address, append([]string{"-admin", "0.0.0.0:0", "--"}, r.engine(address)...)...)
	testkit.WaitFor(t, "the document", func() bool { return strings.Contains(r.document("workers/gpu-1"), "127.0.0.1:") })
	if d := r.document("workers/gpu-1"); strings.Contains(d, "[::]") || strings.Contains(d, "0.0.0.0") || !strings.Contains(d, `"admin":"127.0.0.1:`) && !strings.Contains(d, "admin: 127.0.0.1:") {
		t.Errorf("got %s", d)
	}
	if err := p.Stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
