package cmd_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"colonnade/discovery/etcd"
	"colonnade/internal/testkit"
)

const stoppedSlots = 4

// stoppedLayout is a colo with one engine of a few slots, whose requests take up to half a second and may wait for as long as
// the server is stopped.
func stoppedLayout() layout {
	return layout{
		slots: stoppedSlots, engine: []string{"-ttft", "5ms", "-itl", "25ms"}, node: []string{"-drain", "2s"},
		documents: "---\nkey: pools/tiny\nqueue: {max_wait: 5m}\n",
	}
}

// peak returns the largest number of requests that the engine has had at once.
func (f *processes) peak() int {
	f.t.Helper()
	var stats struct{ Peak, Running, Waiting int }
	_, text := testkit.Get("http://" + f.engines["ams/1"].address + "/stats")
	if err := json.Unmarshal([]byte(text), &stats); err != nil {
		f.t.Fatalf("stats %q: %v", text, err)
	}
	return stats.Peak
}

func (f *processes) wantPeak() {
	f.t.Helper()
	if n := f.peak(); n != stoppedSlots {
		f.t.Errorf("the engine had %d requests at once, want %d, all of its slots and no more", n, stoppedSlots)
	}
}

func (m *member) send(s syscall.Signal) {
	if err := m.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		m.t.Errorf("cannot send %v: %v", s, err)
	}
}

// waitKnown waits until the entry's table has a server. Until then, the entry sends requests to the stopped one.
func (f *processes) waitKnown(m *member) {
	f.t.Helper()
	testkit.WaitFor(f.t, "the entry to know the server at "+m.address, func() bool {
		_, page := testkit.Get("http://" + f.entry.admin + "/debug/fleet")
		return strings.Contains(page, m.address)
	})
}

// A server that is stopped (SIGSTOP) for longer than its lease can be replaced under its name. When it continues, it grants nothing,
// answers the requests that wait at its socket with moved, and ends.
func TestStoppedServerIsReplaced(t *testing.T) {
	f := func(successor string) {
		t.Run(successor, func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, stoppedLayout())
			stuck := startClients(f.entry.address, 3*stoppedSlots)
			testkit.WaitFor(t, "requests to be answered", func() bool { return stuck.answered() > 8 })
			first := f.colos["ams"]
			first.send(syscall.SIGSTOP)
			defer first.send(syscall.SIGCONT)
			second := f.node("colo", successor, layout{node: []string{"-data-dir", t.TempDir()}}, "-colo", "ams")
			f.ready(second)
			f.waitKnown(second)
			load := startClients(f.entry.address, 3*stoppedSlots)
			testkit.WaitFor(t, "requests to be answered by the successor", func() bool { return load.answered() > 8 })

			before := stuck.answered()
			first.send(syscall.SIGCONT)
			var exit *exec.ExitError
			if err := first.Wait(); !errors.As(err, &exit) || !strings.Contains(first.Output(), "cannot register servers/ams/ams-1") {
				t.Errorf("its key is taken, and the stopped server ended with %v", err)
			}
			testkit.WaitFor(t, "the requests of the stopped server to be answered", func() bool { return stuck.answered() >= before+3*stoppedSlots })
			f.wantServed(stuck.end(), http.StatusServiceUnavailable) // the stopped server answers moved
			f.wantServed(load.end(), 0)
			f.wantPeak()
		})
	}
	f("ams-1")
}

// wantServed checks that all requests completed, or have this status.
func (f *processes) wantServed(sent map[string]sentRequest, or int) {
	f.t.Helper()
	for id, seen := range sent {
		if !seen.whole && (or == 0 || seen.status != or) {
			f.t.Errorf("%s has the status %d, or is incomplete: %s", id, seen.status, seen.text)
		}
	}
}

// A server that was stopped for longer than its lease serves again once etcd has confirmed that its key is still free.
func TestStoppedServerResumes(t *testing.T) {
	t.Parallel()
	f := startFleet(t, stoppedLayout())
	load := startClients(f.entry.address, 3*stoppedSlots)
	colo := f.colos["ams"]
	client, err := etcd.Dial([]string{f.etcd})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	registered := func() bool {
		answer, err := client.Get(t.Context(), etcd.DefaultPrefix+"servers/ams/ams-1")
		return err == nil && len(answer.Kvs) == 1
	}
	testkit.WaitFor(t, "requests to be answered", func() bool { return load.answered() > 8 })
	colo.send(syscall.SIGSTOP)
	defer colo.send(syscall.SIGCONT)
	testkit.WaitFor(t, "its lease to run out", func() bool { return !registered() })
	before := load.answered()
	colo.send(syscall.SIGCONT)
	testkit.WaitFor(t, "requests to be answered again", func() bool { return load.answered() >= before+16 })
	testkit.WaitFor(t, "the server to be registered", registered)
	if !strings.Contains(colo.Output(), "granting suspended") || !strings.Contains(colo.Output(), "granting resumed") {
		t.Error("the log does not mention the stop")
	}
	if status, text := testkit.Get("http://" + colo.admin + "/metrics"); status != http.StatusOK || !strings.Contains(text, "colonnade_grants_enabled 1\n") {
		t.Errorf("metrics: %d, without colonnade_grants_enabled 1", status)
	}
	f.wantServed(load.end(), 0)
	f.wantPeak()
	if err := colo.Stop(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// A server that is killed under load and restarted at once under its name grants no slot twice.
func TestRestartedServerGrantsNothingTwice(t *testing.T) {
	t.Parallel()
	f := startFleet(t, stoppedLayout())
	load := startClients(f.entry.address, 3*stoppedSlots)
	for range 3 {
		before := load.answered()
		testkit.WaitFor(t, "requests to be answered", func() bool { return load.answered() > before+3*stoppedSlots })
		f.colos["ams"].restart()
	}
	before := load.answered()
	testkit.WaitFor(t, "requests to be answered", func() bool { return load.answered() > before+3*stoppedSlots })
	load.end()
	f.wantPeak()
}
