package cmd_test

import (
	"context"
	"errors"
	"fmt"
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

// examples returns the commands in the help of a command and of the commands below it.
func examples(t *testing.T, command ...string) []string {
	t.Helper()
	help, err := run(t, command[0], append(command[1:], "-h")...)
	if err != nil {
		t.Fatalf("%v -h: %v\n%s", command, err, help)
	}
	_, text, _ := strings.Cut(strings.ReplaceAll(help, "\\\n", ""), "Examples:\n") // a line may go on in the next one
	var found []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasSuffix(line, ":") && !strings.HasPrefix(line, "-") {
			found = append(found, line)
		} else {
			break
		}
	}
	if len(found) == 0 {
		t.Errorf("%v -h has no examples:\n%s", command, help)
	}
	_, below, _ := strings.Cut(help, "\nCOMMANDS:\n")
	below, _, _ = strings.Cut(below, "\n\n")
	for _, m := range regexp.MustCompile(`(?m)^   ([a-z-]+) `).FindAllStringSubmatch(below, -1) {
		found = append(found, examples(t, append(command, m[1])...)...)
	}
	return found
}

// workplace is where examples run: a fleet, whose addresses and files take the place of those in the examples.
type workplace struct {
	t       *testing.T
	dir     string
	path    string
	etcd    string
	replace *strings.Replacer
}

func newWorkplace(t *testing.T, etcd string, replace ...string) *workplace {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	w := &workplace{t: t, dir: t.TempDir(), path: filepath.Dir(testkit.Binary(t, "colonnade")), etcd: etcd, replace: strings.NewReplacer(replace...)}
	if err := os.Symlink(filepath.Join(root, "deploy"), filepath.Join(w.dir, "deploy")); err != nil {
		t.Fatal(err)
	}
	return w
}

// writeDocuments makes a directory with documents, and one more file of documents beside it.
func (w *workplace) writeDocuments(dir string) {
	w.t.Helper()
	const fleet = "deploy/fleet.yaml"
	setUp := fmt.Sprintf("mkdir -m 0700 %[1]s && cp %[2]s %[1]s && cp %[2]s models.yaml && colonnade keys create -account acme -id laptop -config %[1]s", dir, fleet)
	if out, err := w.command(w.t.Context(), setUp).CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v\n%s", setUp, err, out)
	}
}

// writeFleet gives the fleet an account, writes its documents into a directory, and its key to fleet.key.
func (w *workplace) writeFleet(dir, key string) {
	w.t.Helper()
	setUp := fmt.Sprintf("umask 077 && printf 'key: accounts/acme\\n' | colonnade config apply - && mkdir -m 0700 %[1]s && colonnade config export > %[1]s/all.yaml && cp -p %[2]s fleet.key", dir, key)
	if out, err := w.command(w.t.Context(), setUp).CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v\n%s", setUp, err, out)
	}
}

// writeEngines makes programs with the names of engines that the examples start: each is a simulated engine at an address. It also writes the key
// of a worker to gpus.key, and starts the engine at watched.
func (w *workplace) writeEngines(address, watched string) {
	w.t.Helper()
	script := "#!/bin/sh\nexec colonnade engine -listen " + address + " -models own-model\n"
	for _, name := range []string{"vllm", "llama-server", "docker"} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(script), 0o700); err != nil {
			w.t.Fatal(err)
		}
	}
	w.path = w.dir + ":" + w.path
	if out, err := w.command(w.t.Context(), "umask 077 && colonnade keys create -role worker > gpus.key").CombinedOutput(); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	testkit.Start(w.t, w.command(w.t.Context(), "exec colonnade engine -models watched-model -listen "+watched))
	testkit.WaitFor(w.t, "the engine to be watched", func() bool { status, _ := testkit.Get("http://" + watched + "/health"); return status == http.StatusOK })
}

// findsSomething reports whether an example exits with 1 when it finds a difference or an error: in the fleet of the examples, one engine
// is down.
func findsSomething(example string) bool {
	return strings.Contains(example, "colonnade status") || strings.Contains(example, "config status") || strings.Contains(example, "config diff") ||
		strings.Contains(example, " -dry-run") || strings.Contains(example, "colonnade request")
}

func exitStatus(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

func (w *workplace) command(ctx context.Context, example string, environment ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -eo pipefail; "+w.replace.Replace(example))
	cmd.Dir = w.dir
	cmd.Env = append(append(os.Environ(), "PATH="+w.path+":"+os.Getenv("PATH"), "COLONNADE_ETCD="+w.etcd), environment...)
	return cmd
}

// follow runs an example that serves or watches until it has written some text, and then stops it by Ctrl-C.
func (w *workplace) follow(example, text string, environment ...string) {
	w.t.Helper()
	cmd := w.command(w.t.Context(), "exec "+example, environment...)
	p := testkit.Start(w.t, cmd)
	testkit.WaitFor(w.t, "output of "+example, func() bool { return strings.Contains(p.Output(), text) })
	if err := p.Stop(syscall.SIGINT); err != nil {
		w.t.Errorf("%s: %v", example, err)
	}
}

// The examples in the help of each command work.
func TestExamplesInHelp(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not in the PATH", program)
		}
	}
	f := startFleet(t, layout{})
	if status, body := chat(f.entry.address, testKey, false); status != 200 { // so that there are events
		t.Fatalf("%d %s", status, body)
	}
	const newest = "$(colonnade config history -json | jq '.[0].revision')"
	started, watched := etcdtest.FreeAddress(t), etcdtest.FreeAddress(t)
	w := newWorkplace(t, f.etcd, "10.0.0.7:9443", f.colos["ams"].admin, "-pool chat -url http://10.0.0.7:8000", "-pool chat -url http://"+watched,
		"http://10.0.0.7:8000", "http://"+started, "http://10.0.0.2:9080", "http://"+f.colos["ams"].admin, "colonnade status -admin 127.0.0.1:9080", "colonnade status -admin "+f.colos["ams"].admin,
		"config delete endpoints/", "config delete -ignore-missing endpoints/", "config delete owners/", "config delete -ignore-missing owners/", // they are no documents of this fleet
		"history 5127", "history "+newest, "rollback 5127", "rollback $(("+newest+" - 1))", "rollback -dry-run 5127", "rollback -dry-run $(("+newest+" - 1))",
		"http://127.0.0.1:9080", "http://"+f.entry.admin, "127.0.0.1:9080", f.entry.admin,
		"http://127.0.0.1:8000", "http://"+f.engines["ams/1"].address, "127.0.0.1:8000", etcdtest.FreeAddress(t), "-data-dir var", "-data-dir "+f.entry.dir, "/tmp/fleet", t.TempDir(), "/var/lib/colonnade", t.TempDir())
	w.writeDocuments("conf")
	w.writeFleet("fleet", f.keyFile)
	w.writeEngines(started, watched)
	all := examples(t, "colonnade")
	if len(all) < 30 {
		t.Errorf("only %d examples: %q", len(all), all)
	}
	slices.SortStableFunc(all, func(a, b string) int { return rank(a) - rank(b) })
	free := []string{"COLONNADE_LISTEN=127.0.0.1:0", "COLONNADE_ADMIN=127.0.0.1:0", "COLONNADE_ETCD_LISTEN=127.0.0.1:0"}
	for _, example := range slices.Compact(all) {
		switch {
		case strings.HasPrefix(example, "colonnade up"):
			w.follow(example, "Ctrl-C stops the fleet.", free...)
		case strings.HasPrefix(example, "colonnade serve") && !strings.Contains(example, "-print-config"):
			w.follow(example, "serving on", append(free, "COLONNADE_DRAIN=0s")...)
		case strings.HasPrefix(example, "colonnade register"):
			w.follow(example, "serving: endpoints/ams/", "COLONNADE_ADMIN=127.0.0.1:0")
		case strings.HasPrefix(example, "colonnade engine"):
			w.follow(example, "simulated engine at")
		case strings.Contains(example, " -workers -watch"):
			w.follow(example, "no engine with a worker")
		case strings.Contains(example, " -watch"):
			w.follow(example, "COLO  POOL")
		case strings.Contains(example, "postgres://"): // which package sinks runs
		case strings.Contains(example+" ", " -f "):
			w.follow(example, "acme")
		default:
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout)
			if out, err := w.command(ctx, example).CombinedOutput(); err != nil && !(findsSomething(example) && exitStatus(err) == 1) {
				t.Errorf("%s: %v\n%s", example, err, out)
			}
			cancel()
		}
	}
}

// rank orders examples: files that are the whole truth come before others add to it, documents and keys are written before they are
// read, and removed last.
func rank(example string) int {
	for i, verb := range []string{" -prune ", " apply ", " create ", " -print-config ", " revoke ", " delete "} {
		if strings.Contains(example, verb) {
			return []int{-3, -1, -2, -1, 1, 2}[i]
		}
	}
	return 0
}

// The examples in the help of entry and colo start a node.
func TestExamplesInHelpOfNodes(t *testing.T) {
	t.Parallel()
	etcd := "http://" + etcdtest.Start(t).Address
	w := newWorkplace(t, etcd, "http://10.0.0.11:2379", etcd, "fleet.key", testkit.KeyFile(t), "/var/lib/colonnade", t.TempDir())
	free := []string{"COLONNADE_LISTEN=127.0.0.1:0", "COLONNADE_ADMIN=127.0.0.1:0", "COLONNADE_DRAIN=0s", testkit.FreeGossip}
	for _, binary := range []string{"colo", "entry"} {
		for _, example := range examples(t, binary) {
			w.follow(example, "msg=serving", free...)
		}
	}
}
