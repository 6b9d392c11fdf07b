package cmd_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"colonnade/discovery/etcd"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// config runs `colonnade config …` and reports whether its exit status is 0; another one than 0 and 1 is an error.
func (f *processes) config(args ...string) (string, bool) {
	f.t.Helper()
	out, err := run(f.t, "colonnade", append(append([]string{"config"}, args...), "-etcd", f.etcd)...)
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		f.t.Fatalf("config %v: %v\n%s", args, err, out)
	}
	return strings.ReplaceAll(out, "\n  ", " "), err == nil
}

// awaitStatus waits until `config status` prints some texts, and checks whether it succeeds then.
func (f *processes) awaitStatus(ok bool, texts ...string) {
	f.t.Helper()
	var out string
	var succeeded bool
	testkit.WaitFor(f.t, fmt.Sprintf("%q from config status", texts), func() bool {
		out, succeeded = f.config("status")
		for _, text := range texts {
			if !strings.Contains(out, text) {
				return false
			}
		}
		return true
	})
	if succeeded != ok {
		f.t.Errorf("exit status 0: %v, want %v\n%s", succeeded, ok, out)
	}
}

// putUnchecked writes a document to etcd without checking it.
func (f *processes) putUnchecked(key, value string) {
	f.t.Helper()
	client, err := etcd.Dial([]string{f.etcd})
	if err != nil {
		f.t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Put(f.t.Context(), etcd.DefaultPrefix+key, value); err != nil {
		f.t.Fatal(err)
	}
}

// config status follows a fleet: no problems, a rejected document, deletions that are held back, a node that is down.
func TestConfigStatusOfAFleet(t *testing.T) {
	t.Parallel()
	f := startFleet(t, layout{})
	f.apply("key: pools/tiny\nqueue: {limit: 5}\n")
	f.awaitStatus(true, "edge-1 ", "entry weur", "ams-1 ", "colo ams", "no problems")

	f.putUnchecked("pools/tiny", "queue: {limit: -5}\n")
	f.awaitStatus(false, "- pools/tiny (revision", "queue.limit: -5: must be at least 0; in force: revision", "1 error found")
	out, ok := f.config("get", "pools/")
	if !ok || !strings.Contains(out, "# Not accepted: pools/tiny: queue.limit") {
		t.Errorf("config get: %v\n%s", ok, out)
	}
	f.apply("key: pools/tiny\nqueue: {limit: 6}\n")
	f.awaitStatus(true, "no problems")

	models := ""
	var keys []string
	for i := range 12 {
		keys = append(keys, fmt.Sprintf("models/m%d", i))
		models += "---\nkey: " + keys[i] + "\npool: tiny\n"
	}
	f.apply(models)
	f.awaitStatus(true, "models 13", "no problems")
	if out, ok := f.config(append([]string{"delete"}, keys...)...); !ok || !strings.Contains(out, "colonnade config confirm-deletions") {
		t.Errorf("config delete: %v\n%s", ok, out)
	}
	f.awaitStatus(false, "12 deletions held back by edge-1, ams-1: models/m0,")
	if out, ok := f.config("confirm-deletions"); !ok || !strings.Contains(out, "no node holds deletions back any more") {
		t.Errorf("config confirm-deletions: %v\n%s", ok, out)
	}
	f.awaitStatus(true, "models 1,", "no problems")

	_ = f.entry.Stop(syscall.SIGKILL)
	if out, ok := f.config("status"); ok || !strings.Contains(out, "entries/edge-1: cannot be asked at "+f.entry.admin+": connection refused") {
		t.Errorf("config status, with an entry that was killed: %v\n%s", ok, out)
	}
	f.awaitStatus(true, "no problems") // once its lease has run out
}

// The documents of one etcd can be applied to another, without the registrations of nodes.
func TestConfigGetMovesDocuments(t *testing.T) {
	t.Parallel()
	f, other := startFleet(t, layout{}), "http://"+etcdtest.Start(t).Address
	out, err := run(t, "colonnade", "config", "get", "-etcd", f.etcd)
	if err != nil {
		t.Fatal(err, out)
	}
	file := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := run(t, "colonnade", "config", "apply", "-etcd", other, file); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	if again, err := run(t, "colonnade", "config", "get", "-etcd", other); err != nil || again != out {
		t.Errorf("%v, got\n%s\nwant\n%s", err, again, out)
	}
}

// events tail follows the events of a fleet until Ctrl-C.
func TestEventsTailFollowsAFleet(t *testing.T) {
	t.Parallel()
	f := startFleet(t, layout{})
	if status, body := chat(f.entry.address, testKey, false); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	columns := regexp.MustCompile(" +")
	unaligned := func(text string) string { return columns.ReplaceAllString(text, " ") }
	tail := start(t, "colonnade", "events", "tail", "-data-dir", f.entry.dir, "-f")
	testkit.WaitFor(t, "the first request", func() bool { return strings.Count(unaligned(tail.Output()), "acme tiny ams") == 1 })
	if status, body := chat(f.entry.address, "wrong", true); status != 401 {
		t.Errorf("%d %s", status, body)
	}
	testkit.WaitFor(t, "the second", func() bool { return strings.Contains(unaligned(tail.Output()), "401 refused (invalid_api_key)") })
	if status, body := chat(f.entry.address, testKey, true); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	testkit.WaitFor(t, "the third", func() bool { return strings.Count(unaligned(tail.Output()), "acme tiny ams") == 2 })
	if err := tail.Stop(syscall.SIGINT); err != nil || strings.Contains(tail.Output(), "left out") {
		t.Errorf("%v\n%s", err, tail.Output())
	}
	out, err := run(t, "colonnade", "events", "tail", "-data-dir", f.colos["ams"].dir, "-kind", "inference")
	if err != nil || strings.Count(unaligned(out), "ams-1 acme tiny ams/1 200") != 2 || strings.Count(out, "\n") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}
