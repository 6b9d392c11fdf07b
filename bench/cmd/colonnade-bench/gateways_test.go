package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"colonnade/bench"
	"colonnade/internal/simengine"
)

// Two gateways of one fleet have a pool, engines and accounts of their own, and differ in whether requests wait.
func TestOwnGateways(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := &http.Client{}
	defer client.CloseIdleConnections()
	ask := func(target *bench.Target, s bench.Setup, key string) (status int, reason string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, target.URL+"/chat/completions",
			strings.NewReader(`{"model":"`+s.Model+`","messages":[{"role":"user","content":"hello"}]}`))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		r.Header.Set("Authorization", "Bearer "+key)
		answer, err := client.Do(r)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode, answer.Header.Get("X-Colonnade-Reason")
	}
	started := map[string]*bench.Target{}
	setups := map[string]bench.Setup{}
	defer func() {
		for name, target := range started {
			if err := target.Stop(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}()
	for _, g := range ownGateways() {
		if g.Name != "colonnade" && g.Name != "no queue" {
			continue
		}
		engine := simengine.New(simengine.Config{Slots: 1, TTFT: 200 * time.Millisecond, ITL: -1})
		server := httptest.NewServer(engine)
		defer server.Close()
		defer engine.Close()
		s := bench.Setup{
			Engines: []bench.Engine{{URL: server.URL, Slots: 1}}, Model: "m-" + strings.ReplaceAll(g.Name, " ",
				"-"), Dir: t.TempDir(),
			Accounts: []bench.Account{{Name: "team-1", Key: "key of " + g.Name, Weight: 1, Priority: "standard"}},
			Queue:    bench.Queue{Limit: 8, MaxWait: 20 * time.Second},
		}
		target, err := g.Start(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		started[g.Name], setups[g.Name] = target, s
		for status := 0; status != http.StatusOK && ctx.Err() == nil; { // the documents may not be in force yet
			status, _ = ask(target, s, s.Accounts[0].Key)
		}
	}
	// Four requests at once, for one slot.
	fourAtOnce := func(name string) (served int, reasons []string) {
		target, s := started[name], setups[name]
		type outcome struct {
			status int
			reason string
		}
		outcomes := make(chan outcome)
		for range 4 {
			go func() {
				status, reason := ask(target, s, s.Accounts[0].Key)
				outcomes <- outcome{status, reason}
			}()
		}
		for range 4 {
			if f := <-outcomes; f.status == http.StatusOK {
				served++
			} else {
				reasons = append(reasons, f.reason)
			}
		}
		return served, reasons
	}
	if served, reasons := fourAtOnce("colonnade"); served != 4 {
		t.Errorf("with a queue %d of 4 were served; refused for %q", served, reasons)
	}
	if served, reasons := fourAtOnce("no queue"); served == 4 || served == 0 || reasons[0] != "queue_full" {
		t.Errorf("without a queue %d of 4 were served; refused for %q", served, reasons)
	}
	if status, _ := ask(started["colonnade"], setups["colonnade"], "unknown"); status != http.StatusUnauthorized {
		t.Errorf("an unknown key: %d", status)
	}
	for name, target := range started {
		held, queued, err := target.Held(ctx)
		for ; (held != 0 || queued != 0) && err == nil; held, queued, err = target.Held(ctx) {
			time.Sleep(5 * time.Millisecond)
		}
		if err != nil {
			t.Errorf("%s: held %d, queued %d: %v", name, held, queued, err)
		}
	}
}

func TestPoolState(t *testing.T) {
	page := `[{"pool":"p","held":3,"queued":10},{"pool":"q","held":5}]`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) }))
	defer server.Close()
	if held, queued, err := poolState(t.Context(), server.URL, "p"); err != nil || held != 3 || queued != 10 {
		t.Errorf("held %d, queued %d, %v", held, queued, err)
	}
	if _, _, err := poolState(t.Context(), server.URL, "other"); err == nil {
		t.Error("an absent pool has a state")
	}
	page = "many"
	if _, _, err := poolState(t.Context(), server.URL, "p"); err == nil {
		t.Error("a malformed page was read")
	}
	if _, _, err := poolState(t.Context(), "http://127.0.0.1:1", "p"); err == nil {
		t.Error("without a server, the pool has a state")
	}
}
