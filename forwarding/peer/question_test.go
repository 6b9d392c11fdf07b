package peer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/homes"
	"colonnade/internal/forwardtest"
	"colonnade/internal/testkit"
)

func (s *coloServer) registered(boot string) peer.Server {
	return peer.Server{Colo: "ams", Node: "ams-1", Address: strings.TrimPrefix(s.URL, "http://"), Boot: boot}
}

// answerWith sets the answers to good tokens.
func (s *coloServer) answerWith(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// asker returns the client of another server of the colo.
func (s *coloServer) asker() *peer.Client {
	c := s.client()
	c.Node = "ams-2"
	return c
}

// A question is signed by the asking server for the process that answers, also after a restart, and the answer may be long.
func TestAsk(t *testing.T) {
	t.Parallel()
	s := startColoServer(t, "first")
	want := homes.Answer{Boot: "first", Ended: []string{"zeroth"}, Held: map[string]int{}, Reaches: true}
	for i := range 3000 {
		want.Held[fmt.Sprintf("http://engine-%d.example.org:8000", i)] = i
	}
	var asked []string
	s.answerWith(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.RequestURI())
		_ = json.NewEncoder(w).Encode(want)
	})
	c := s.asker()
	for _, boot := range []string{"first", "second", "second"} {
		s.restart(boot)
		got, err := c.Ask(t.Context(), s.registered("first"), peer.Question{About: "a&b", From: "mine"})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("asking %s: %d engines, %v", boot, len(got.Held), err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(asked) != 3 || asked[0] != "GET /colonnade/v1/owned?about=a%26b&colo=ams&from=mine" {
		t.Errorf("asked %q", asked)
	}
	if len(s.seen) != 4 || s.served[1].Boot != "second" || s.served[2].Number != 2 || s.served[2].Source != "ams-2" {
		t.Errorf("with the tokens %+v", s.served)
	}
}

// An answer counts within the limit only, and a refusal is none.
func TestAskFails(t *testing.T) {
	t.Parallel()
	s := startColoServer(t, "boot")
	ask := func(c *peer.Client) error {
		answer, err := c.Ask(t.Context(), s.registered("boot"), peer.Question{})
		if err == nil || peer.IsRefused(err) {
			t.Errorf("the answer %+v, %v", answer, err)
		}
		return err
	}
	s.answerWith(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if err := ask(s.asker().AskWithin(20 * time.Millisecond)); !strings.Contains(err.Error(), "in time") && !strings.Contains(err.Error(), "too late") {
		t.Errorf("a silent server: %v", err)
	}
	s.answerWith(http.NotFound)
	_ = ask(s.asker())
	s.answerWith(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"boot":`) })
	_ = ask(s.asker())
	s.answerWith(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte(" "), 5<<20)) })
	if err := ask(s.asker().AskWithin(time.Minute)); !strings.Contains(err.Error(), "has more than") {
		t.Errorf("a long answer: %v", err)
	}
	s.answerWith(nil)
	s.mu.Lock()
	s.refuse = hop.ErrReplayed
	s.mu.Unlock()
	_ = ask(s.asker())
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := s.asker().Ask(ended, s.registered("boot"), peer.Question{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a question that was given up: %v", err)
	}
}

// Only an address that refuses connections is refused: at all addresses of a name.
func TestIsRefused(t *testing.T) {
	t.Parallel()
	s := startColoServer(t, "boot")
	c, to := s.asker(), s.registered("boot")
	if peer.RefusedEverywhere(t.Context(), strings.Replace(to.Address, "127.0.0.1", "localhost", 1)) {
		t.Error("an address of localhost accepts connections, and counts as refusing them")
	}
	s.Close()
	for _, address := range []string{to.Address, strings.Replace(to.Address, "127.0.0.1", "localhost", 1)} {
		to.Address = address
		if _, err := c.Ask(t.Context(), to, peer.Question{}); !peer.IsRefused(err) {
			t.Errorf("Ask at %s, where no process listens: %v", address, err)
		}
		if err := c.Alive(t.Context(), to); !peer.IsRefused(err) {
			t.Errorf("Alive at %s, where no process listens: %v", address, err)
		}
	}
	if peer.IsRefused(nil) || peer.IsRefused(syscall.ECONNREFUSED) {
		t.Error("refused, without a connection")
	}
}

// A server that closes each connection at once refuses none.
func TestClosedConnectionIsNotRefused(t *testing.T) {
	t.Parallel()
	s := startColoServer(t, "boot")
	to := s.registered("boot")
	to.Address = forwardtest.ListenRaw(t, func(c net.Conn) {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	})
	if _, err := s.asker().Ask(t.Context(), to, peer.Question{}); err == nil || peer.IsRefused(err) {
		t.Errorf("Ask: %v", err)
	}
	if err := s.asker().Alive(t.Context(), to); err == nil || peer.IsRefused(err) {
		t.Errorf("Alive: %v", err)
	}
}

// Any HTTP response is a sign of life, silence is none.
func TestAlive(t *testing.T) {
	t.Parallel()
	s := startColoServer(t, "boot")
	c := s.client()
	c.Node = "entry-1"
	for what, answer := range map[string]http.HandlerFunc{
		"no content":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"an older version": http.NotFound,
		"a refusal":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
	} {
		s.answerWith(answer)
		if err := c.Alive(t.Context(), s.registered("boot")); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.answerWith(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.Alive(ctx, s.registered("boot")); err == nil || peer.IsRefused(err) {
		t.Errorf("silence: %v", err)
	}
}

// askerEnv has the address to ask in a process that is stopped meanwhile.
const askerEnv = "COLONNADE_TEST_ASK"

// The answer to a process that was stopped after it had asked does not count, though it arrived in time.
func TestAskerThatWasStopped(t *testing.T) {
	t.Parallel()
	testkit.NeedsLinux(t, "shows the states of threads in /proc, by which the test finds that the process is stopped")
	const within = 200 * time.Millisecond
	keys, err := hop.NewKeys(bytes.Repeat([]byte{1}, hop.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	if address := os.Getenv(askerEnv); address != "" {
		c := (&peer.Client{Node: "ams-2", Keys: keys, Transport: forwardtest.NewTransport(t)}).AskWithin(within)
		answer, err := c.Ask(t.Context(), peer.Server{Colo: "ams", Node: "ams-1", Address: address, Boot: "boot"}, peer.Question{})
		fmt.Printf("asked: %q, %v\n", answer.Boot, err)
		return
	}
	s := startColoServer(t, "boot")
	s.mu.Lock()
	s.keys = keys
	s.mu.Unlock()
	child := exec.Command(os.Args[0], "-test.run=^TestAskerThatWasStopped$", "-test.v")
	child.Env = append(os.Environ(), askerEnv+"="+strings.TrimPrefix(s.URL, "http://"))
	started := make(chan struct{})
	s.answerWith(func(w http.ResponseWriter, _ *http.Request) {
		<-started
		if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Error(err)
		}
		testkit.WaitFor(t, "the process to be stopped", func() bool { return isStopped(child.Process.Pid) })
		time.AfterFunc(within*3/2, func() { _ = child.Process.Signal(syscall.SIGCONT) })
		_, _ = io.WriteString(w, `{"boot":"boot"}`)
	})
	var out bytes.Buffer
	child.Stdout = &out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	close(started)
	if err := child.Wait(); err != nil || !strings.Contains(out.String(), `asked: "", `) {
		t.Errorf("the process says %s, %v", out.String(), err)
	}
}

// isStopped reports whether all threads of a process are stopped.
func isStopped(pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if _, state, _ := strings.Cut(string(stat), ") "); err == nil && !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return err == nil && len(stats) > 0
}
