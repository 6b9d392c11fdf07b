package deploy_test

import (
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// loopback runs the services of compose.yaml on loopback: each port of each service has an address of its own.
type loopback struct {
	t         *testing.T
	services  map[string]service
	addresses map[string]string // by service:port
	dir       string
}

func (l *loopback) address(service, port string) string {
	l.t.Helper()
	key := service + ":" + port
	if l.addresses[key] == "" {
		l.addresses[key] = etcdtest.FreeAddress(l.t)
	}
	return l.addresses[key]
}

// move replaces the addresses and files in an argument of a service by those on this machine.
func (l *loopback) move(name, arg string) string {
	l.t.Helper()
	if port, ok := strings.CutPrefix(arg, ":"); ok {
		return l.address(name, port)
	}
	hosts := strings.Join(slices.Collect(maps.Keys(l.services)), "|")
	arg = regexp.MustCompile(`\b(`+hosts+`|127\.0\.0\.1):(\d+)\b`).ReplaceAllStringFunc(arg, func(at string) string {
		host, port, _ := strings.Cut(at, ":")
		if host == "127.0.0.1" {
			host = name // its own
		}
		return l.address(host, port)
	})
	return strings.NewReplacer(
		"/run/secrets/fleet-key", filepath.Join(l.dir, "fleet.key"),
		"/etc/colonnade/fleet.yaml", filepath.Join(l.dir, "fleet.yaml"),
		"/var/lib/colonnade", filepath.Join(l.dir, name),
	).Replace(arg)
}

func (l *loopback) command(name string, args []string) []string {
	l.t.Helper()
	var moved []string
	for _, arg := range args {
		moved = append(moved, l.move(name, arg))
	}
	return moved
}

func (l *loopback) start(name string) *testkit.Process {
	l.t.Helper()
	s := l.services[name]
	var environment []string
	for variable, value := range s.Environment {
		environment = append(environment, variable+"="+l.move(name, value))
	}
	return start(l.t, environment, l.command(name, s.Command)...)
}

// healthy runs the health check of a service.
func (l *loopback) healthy(name string) bool {
	l.t.Helper()
	args := l.command(name, l.services[name].Health.Test[1:])
	return exec.Command(testkit.Binary(l.t, args[0]), args[1:]...).Run() == nil
}

// The fleet of compose.yaml serves on loopback: its commands, documents and health checks work, and its nodes drain.
func TestComposeFleetServes(t *testing.T) {
	l := &loopback{t: t, services: readCompose(t).Services, dir: filepath.Dir(testkit.KeyFile(t))}
	l.addresses = map[string]string{"etcd:2379": etcdtest.Start(t).Address}
	documents := l.move("", text(t, "compose/fleet.yaml"))
	if err := os.WriteFile(filepath.Join(l.dir, "fleet.yaml"), []byte(documents), 0o600); err != nil {
		t.Fatal(err)
	}

	endWell(t, l.start("config").Wait())
	running := map[string]*testkit.Process{}
	for name, s := range l.services {
		if s.ours() && name != "config" {
			running[name] = l.start(name)
		}
	}
	for name := range running {
		testkit.WaitFor(t, name+" to be healthy", func() bool { return l.healthy(name) })
	}
	entry := l.address("entry", "8080")
	const chat = `{"model":"default","max_tokens":4,"messages":[{"role":"user","content":"hello"}]}`
	var got answer
	testkit.WaitFor(t, "a response of the first colo, whose engine may have started after it", func() bool {
		got = post(entry, "/v1/chat/completions", chat)
		return got.status == http.StatusOK && got.colo == "ams"
	})
	if !strings.Contains(got.body, `"completion_tokens":4`) {
		t.Errorf("answered by %s: %s", got.colo, got.body)
	}

	// Once the home of the pool has drained, the other server of the first colo serves, and then the second colo.
	endWell(t, running["colo-ams-2"].Stop(syscall.SIGTERM))
	if got := post(entry, "/v1/chat/completions", chat); got.status != http.StatusOK || got.colo != "ams" {
		t.Errorf("with one server of ams gone: %d from %q: %s", got.status, got.colo, got.body)
	}
	endWell(t, running["colo-ams-1"].Stop(syscall.SIGTERM))
	if got := post(entry, "/v1/chat/completions", chat); got.status != http.StatusOK || got.colo != "fra" {
		t.Errorf("with ams gone: %d from %q: %s", got.status, got.colo, got.body)
	}
	if l.healthy("colo-ams-1") {
		t.Error("the health check of a stopped server succeeds")
	}
	endWell(t, running["entry"].Stop(syscall.SIGTERM))
	endWell(t, running["colo-fra"].Stop(syscall.SIGTERM))
	for _, name := range []string{"entry", "colo-ams-1", "colo-ams-2", "colo-fra"} {
		if logs, _ := filepath.Glob(filepath.Join(l.dir, name, "events", "*", "*.log")); len(logs) == 0 {
			t.Errorf("%s has written no events", name)
		}
	}
}
