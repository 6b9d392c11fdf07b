package bench

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/internal/simengine"
)

// haproxyTest is a HAProxy in front of one simulated engine of two slots, and clients.
type haproxyTest struct {
	target *Target
	engine *simengine.Engine
	dir    string
	client *http.Client

	ctx     context.Context // of the requests that last until the test ends them
	release context.CancelFunc
	open    int // such requests
	clients sync.WaitGroup
}

// testHAProxy checks a HAProxy. On a busy machine HAProxy may take the engine for dead, since a health check takes too long,
// and refuse requests that it has; so a check that fails is repeated if HAProxy has done so meanwhile.
func testHAProxy(t *testing.T, s Setup, check func(*haproxyTest) error) {
	t.Helper()
	const attempts = 10
	for range attempts {
		h := startTestHAProxy(t, s)
		err := check(h)
		disturbed := h.engineWasDown()
		h.release()
		if stopErr := h.target.Stop(); stopErr != nil {
			t.Error(stopErr)
		}
		h.clients.Wait()
		h.client.CloseIdleConnections()
		if _, _, heldErr := h.target.Held(t.Context()); heldErr == nil {
			t.Error("HAProxy answers after it was stopped")
		}
		if err == nil {
			return
		}
		if !disturbed {
			t.Fatal(err)
		}
		t.Log("repeated, since HAProxy took the engine for dead:", err)
	}
	t.Fatalf("HAProxy took the engine for dead in %d attempts", attempts)
}

func startTestHAProxy(t *testing.T, s Setup) *haproxyTest {
	t.Helper()
	g, err := HAProxy(t.Context())
	if errors.Is(err, errNoHAProxy) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err) // it is installed, and does not run
	}
	h := &haproxyTest{dir: t.TempDir(), client: &http.Client{Transport: &http.Transport{}},
		engine: simengine.New(simengine.Config{Slots: 2, TTFT: time.Millisecond, ITL: 50 * time.Millisecond, Tokens: 1 << 20})}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- simengine.Serve(ctx, ln, h.engine) }()
	t.Cleanup(func() {
		cancel()
		<-served
		h.engine.Close()
	})
	s.Engines, s.Dir = []Engine{{URL: "http://" + ln.Addr().String(), Slots: 2}}, h.dir
	if h.target, err = g.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	h.ctx, h.release = context.WithCancel(context.Background())
	return h
}

// engineWasDown reports whether HAProxy has ever taken the engine for dead.
func (h *haproxyTest) engineWasDown() bool {
	conn, err := net.Dial("unix", filepath.Join(h.dir, "haproxy.sock"))
	if err != nil {
		return false
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "show stat engines 4 -1\n"); err != nil { // servers
		return false
	}
	rows, err := csv.NewReader(conn).ReadAll()
	if err != nil || len(rows) != 2 {
		return false
	}
	column := slices.Index(rows[0], "chkdown")
	return column >= 0 && rows[1][column] != "0"
}

// ask sends one request of so many tokens, and returns its status, its head, and the body of a refusal.
func (h *haproxyTest) ask(ctx context.Context, key string, tokens int) (status int, head http.Header, body string) {
	text := fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"hi"}]}`, tokens)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.target.URL+"/chat/completions", strings.NewReader(text))
	if err != nil {
		return 0, nil, ""
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := h.client.Do(r)
	if err != nil {
		return 0, nil, ""
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, nil, ""
	}
	return answer.StatusCode, answer.Header, string(read)
}

// occupy sends requests that last until ctx ends, one by one, and waits until HAProxy has each.
func (h *haproxyTest) occupy(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		h.clients.Go(func() { h.ask(ctx, key, 1<<20) })
		h.open++
		if err := h.awaitHeld(min(h.open, 2), max(0, h.open-2)); err != nil {
			return err
		}
	}
	return nil
}

func (h *haproxyTest) awaitHeld(held, queued int) error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		n, q, err := h.target.Held(context.Background())
		if err == nil && n == held && q == queued {
			return nil
		}
		if time.Now().After(end) || h.engineWasDown() {
			return fmt.Errorf("%d held, %d queued (%v), want %d and %d", n, q, err, held, queued)
		}
	}
}

// wantRefusal checks the answer to a request that is refused.
func (h *haproxyTest) wantRefusal(key string, status int, code string, retryAfter int) error {
	got, head, body := h.ask(context.Background(), key, 1)
	if got != status || !strings.Contains(body, `"code":"`+code+`"`) {
		return fmt.Errorf("%s: status %d, %s, want %d %s", key, got, body, status, code)
	}
	if n, err := strconv.Atoi(head.Get("Retry-After")); err != nil || n < 1 || n > retryAfter {
		return fmt.Errorf("%s: Retry-After %q, want at most %d", key, head.Get("Retry-After"), retryAfter)
	}
	return nil
}

func (h *haproxyTest) wantServed(key string) error {
	if status, _, body := h.ask(context.Background(), key, 3); status != http.StatusOK {
		return fmt.Errorf("%s: status %d, %s, want 200", key, status, body)
	}
	return nil
}

// There are two slots and four places in the queue: a may have two open requests, and b twice as many. Refused requests do
// not count, and clients that leave make room.
func TestHAProxyBounds(t *testing.T) {
	testHAProxy(t, Setup{
		Accounts: []Account{{Name: "a", Key: "cn_a_1", Weight: 1}, {Name: "b", Key: "cn_b_1", Weight: 2}},
		Queue:    Queue{Limit: 4, MaxWait: 30 * time.Second},
	}, func(h *haproxyTest) error {
		err := cmp.Or(h.wantServed("cn_a_1"), h.occupy(h.ctx, "cn_a_1", "cn_a_1", "cn_b_1", "cn_b_1"))
		for range 3 {
			err = cmp.Or(err, h.wantRefusal("cn_a_1", 429, "account_queue_full", 30))
		}
		if err != nil {
			return err
		}
		leaving, leave := context.WithCancel(h.ctx)
		defer leave()
		if err := h.occupy(leaving, "cn_b_1", "cn_b_1"); err != nil {
			return err
		}
		leave()
		h.open -= 2
		if err := h.awaitHeld(2, 2); err != nil {
			return err
		}
		if err := h.occupy(h.ctx, "cn_b_1", "cn_b_1"); err != nil {
			return err
		}
		if err := h.wantRefusal("cn_b_1", 429, "account_queue_full", 30); err != nil {
			return err
		}
		if err := h.wantRefusal("cn_unknown_1", 503, "queue_full", 30); err != nil {
			return err
		}
		if stats := h.engine.Stats(); stats.Peak > 2 {
			return fmt.Errorf("the engine had %d requests in flight, and has two slots", stats.Peak)
		}
		return nil
	})
}

// A request that waits too long is refused, and its place is free again.
func TestHAProxyQueueTimeout(t *testing.T) {
	const maxWait = 300 * time.Millisecond
	testHAProxy(t, Setup{Queue: Queue{Limit: 4, MaxWait: maxWait}}, func(h *haproxyTest) error {
		if err := h.occupy(h.ctx, "one", "two"); err != nil {
			return err
		}
		began := time.Now()
		if err := h.wantRefusal("three", 503, "queue_timeout", 1); err != nil {
			return err
		}
		if waited := time.Since(began); waited < maxWait {
			return fmt.Errorf("refused after %v, want at least %v", waited, maxWait)
		}
		h.release()
		if err := h.awaitHeld(0, 0); err != nil {
			return err
		}
		return h.wantServed("three")
	})
}

// HAProxy accepts its configuration without a warning.
func TestHAProxyConfig(t *testing.T) {
	path, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("haproxy is not installed: ", err)
	}
	dir := t.TempDir()
	s := Setup{
		Engines:  []Engine{{URL: "http://127.0.0.1:1", Slots: 4}, {URL: "http://127.0.0.1:2", Slots: 4}},
		Accounts: []Account{{Name: "a", Key: "cn_a_1", Priority: "batch"}, {Name: "b", Key: "cn_b_1", Priority: "interactive", Weight: 3}},
		Queue:    Queue{Limit: 64, PerAccount: 32, MaxWait: 2500 * time.Millisecond},
		Dir:      dir,
	}
	if err := writeHAProxy(s); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	check := exec.Command(path, "-c", "-f", filepath.Join(dir, "haproxy.cfg"))
	check.ExtraFiles = append(check.ExtraFiles, file)
	if out, err := check.CombinedOutput(); err != nil || strings.Contains(string(out), "WARNING") {
		t.Errorf("%v: %s", err, out)
	}
	f := func(a Account, want int) {
		t.Helper()
		if n := openRequests(s, a); n != want {
			t.Errorf("%+v: %d open requests, want %d", a, n, want)
		}
	}
	f(Account{Weight: 1}, 8)  // not more than there are slots
	f(Account{Weight: 3}, 24) // three times as many
	f(Account{Weight: 9}, 40) // the queue bound of one account, and all slots
	f(Account{Weight: 1, Priority: "interactive"}, 40)
	s.Queue.Limit, s.Queue.PerAccount = 12, 0
	f(Account{Weight: 1}, 5) // there is room for one account of each weight
	f(Account{}, 5)
	f(Account{Weight: 1, Priority: "batch"}, 20)
	s.Queue.Limit, s.Queue.PerAccount = 4000, 4000
	f(Account{Weight: 1}, 4008)
}
