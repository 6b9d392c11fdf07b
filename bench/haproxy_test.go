package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/internal/simengine"
)

// haproxyFor starts HAProxy before one simulated engine of two slots.
func haproxyFor(t *testing.T, s Setup) (*Target, *simengine.Engine) {
	t.Helper()
	g, err := HAProxy(t.Context())
	if errors.Is(err, ErrNoHAProxy) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err) // it is there, and does not run
	}
	engine := simengine.New(simengine.Config{Slots: 2, TTFT: time.Millisecond, ITL: time.Millisecond, Tokens: 1 << 20})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- simengine.Serve(ctx, ln, engine) }()
	t.Cleanup(func() {
		cancel()
		<-served
		engine.Close()
	})
	s.Engines = []Engine{{URL: "http://" + ln.Addr().String(), Slots: 2}}
	s.Dir = t.TempDir()
	target, err := g.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return target, engine
}

// ask sends one request of so many tokens, and returns its status, its head, and what it says if it is refused.
func ask(ctx context.Context, client *http.Client, target *Target, key string, tokens int) (status int, head http.Header, said string) {
	body := fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"hi"}]}`, tokens)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target.URL+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, nil, ""
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return 0, nil, ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, nil, ""
	}
	return answer.StatusCode, answer.Header, string(text)
}

// crowd sends requests whose keys are told, and which end only when the test lets them; awaits that HAProxy has all in hand.
type crowd struct {
	target *Target
	client *http.Client
	here   int // how many have come
	asking sync.WaitGroup
	end    context.CancelFunc
	ctx    context.Context
}

func newCrowd(target *Target, client *http.Client) *crowd {
	ctx, cancel := context.WithCancel(context.Background())
	return &crowd{target: target, client: client, ctx: ctx, end: cancel}
}

func (c *crowd) come(t *testing.T, keys ...string) {
	t.Helper()
	for _, key := range keys {
		c.asking.Go(func() { ask(c.ctx, c.client, c.target, key, 1<<20) })
		c.here++
		c.awaitHeld(t, min(c.here, 2), max(0, c.here-2))
	}
}

func (c *crowd) awaitHeld(t *testing.T, held, queued int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		h, q, err := c.target.Held(t.Context())
		if err == nil && h == held && q == queued {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d held, %d queued (%v), want %d and %d", h, q, err, held, queued)
		}
	}
}

func TestHAProxy(t *testing.T) {
	setup := Setup{
		Accounts: []Account{{Name: "a", Key: "cn_a_1", Weight: 1}, {Name: "b", Key: "cn_b_1", Weight: 2}},
		Queue:    Queue{Limit: 4, MaxWait: 30 * time.Second},
	}
	target, engine := haproxyFor(t, setup)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	refused := func(key string, status int, code string) {
		t.Helper()
		got, head, said := ask(t.Context(), client, target, key, 1)
		if got != status || !strings.Contains(said, `"code":"`+code+`"`) {
			t.Errorf("%s: status %d, %s, want %d %s", key, got, said, status, code)
		}
		if n, err := strconv.Atoi(head.Get("Retry-After")); err != nil || n < 1 || n > 32 {
			t.Errorf("%s: Retry-After %q", key, head.Get("Retry-After"))
		}
	}
	if status, _, _ := ask(t.Context(), client, target, "cn_a_1", 3); status != 200 {
		t.Fatalf("with nothing to do: status %d", status)
	}

	// There are two slots and four places in the queue: a may have two open requests, and b twice as many. One that is refused does not count.
	c := newCrowd(target, client)
	defer c.end()
	c.come(t, "cn_a_1", "cn_a_1", "cn_b_1", "cn_b_1")
	for range 3 {
		refused("cn_a_1", 429, "account_queue_full")
	}
	// Who leaves the queue makes room.
	leaver := newCrowd(target, client)
	leaver.here = c.here
	leaver.come(t, "cn_b_1", "cn_b_1")
	leaver.end()
	leaver.asking.Wait()
	c.awaitHeld(t, 2, 2)
	c.come(t, "cn_b_1", "cn_b_1")
	refused("cn_b_1", 429, "account_queue_full")
	refused("cn_stranger_1", 503, "queue_full")
	if stats := engine.Stats(); stats.Peak > 2 {
		t.Errorf("the engine had %d requests in hand, and has two slots", stats.Peak)
	}
	c.end()
	if err := target.Stop(); err != nil {
		t.Error(err)
	}
	c.asking.Wait()
	if _, _, err := target.Held(t.Context()); err == nil {
		t.Error("it answers after it was stopped")
	}
}

// Whoever waits too long is told so.
func TestHAProxyQueue(t *testing.T) {
	target, _ := haproxyFor(t, Setup{Queue: Queue{Limit: 4, MaxWait: 300 * time.Millisecond}})
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	c := newCrowd(target, client)
	defer c.end()
	c.come(t, "one", "two")
	status, head, said := ask(t.Context(), client, target, "three", 1)
	if status != 503 || head.Get("Retry-After") != "1" || !strings.Contains(said, `"code":"queue_timeout"`) {
		t.Errorf("waited in vain: status %d, Retry-After %q, %s", status, head.Get("Retry-After"), said)
	}
	c.end()
	c.asking.Wait()
	c.awaitHeld(t, 0, 0)
	if status, _, _ := ask(t.Context(), client, target, "three", 1); status != 200 {
		t.Errorf("after all have left: status %d", status)
	}
	if err := target.Stop(); err != nil {
		t.Error(err)
	}
}

// HAProxy itself finds nothing to complain of, and classes stand where it looks for them.
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
	f(Account{Weight: 9}, 40) // what may wait of one account, and all slots
	f(Account{Weight: 1, Priority: "interactive"}, 40)
	s.Queue.Limit, s.Queue.PerAccount = 12, 0
	f(Account{Weight: 1}, 5) // four of these and the other find room
	f(Account{}, 5)
	f(Account{Weight: 1, Priority: "batch"}, 20)
	s.Queue.Limit, s.Queue.PerAccount = 4000, 4000
	f(Account{Weight: 1}, 4008)
}
