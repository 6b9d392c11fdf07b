package balance_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/permits"
	"colonnade/reasons"
)

// cachedEngine is a simulated engine with a prefix cache that publishes its events.
type cachedEngine struct {
	t testing.TB
	*simengine.Engine
	id, address, events string // addresses of requests and of events
	stop                func() // ends the engine and its publisher
}

// startCached runs an engine whose cache has room for so many blocks of 16 tokens, until the test ends.
func startCached(t testing.TB, id string, blocks int) *cachedEngine {
	e := &cachedEngine{t: t, id: id, address: "127.0.0.1:0", events: "127.0.0.1:0"}
	e.run(blocks)
	t.Cleanup(func() { e.stop() })
	return e
}

// run starts the engine anew, at the same addresses.
func (e *cachedEngine) run(blocks int) {
	e.t.Helper()
	c := fleettest.QuickEngine(8)
	c.Kind, c.Models, c.CacheBlocks = "vllm", []string{"kv"}, blocks
	engine := simengine.New(c)
	requests, events := listen(e.t, e.address), listen(e.t, e.events)
	e.Engine, e.address, e.events = engine, requests.Addr().String(), events.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	served, published := make(chan error, 1), make(chan struct{})
	go func() { served <- simengine.Serve(ctx, requests, engine) }()
	go func() { defer close(published); engine.ServeEvents(ctx, events) }()
	e.stop = func() {
		e.stop = func() {}
		cancel()
		<-published
		if err := <-served; err != nil {
			e.t.Error(err)
		}
		engine.Close()
	}
}

func listen(t testing.TB, address string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// kvWorld is a fleet with a pool by the index of its own, and engines that publish events.
type kvWorld struct{ *world }

func startKV(t *testing.T, metrics string, engines ...*cachedEngine) *kvWorld {
	t.Helper()
	admin, documents := account("root", "admin: true\n")
	documents += "---\nkey: pools/kv\nbalance: {policy: prefix_affinity}\n---\nkey: models/kv\npool: kv\n"
	for _, e := range engines {
		documents += fmt.Sprintf("---\nkey: endpoints/ams/%s\nurl: http://%s\npool: kv\nengine: vllm\nconcurrency: 8\nkv_events: tcp://%s\n"+
			"health: {interval: 50ms}\nmetrics: {read: %s}\n", e.id, e.address, e.events, metrics)
	}
	w := &kvWorld{&world{Fleet: fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(4)), documents), admin: admin}}
	w.WatchShared(8)
	return w
}

// ask sends a prompt of so many words, which begins as all of that name do, and returns the endpoint and the reason.
func (w *kvWorld) ask(name string, words int) (endpoint, reason string) {
	w.T.Helper()
	body := fmt.Sprintf(`{"model":"kv","max_tokens":1,"messages":[{"role":"user","content":"%s"}]}`, strings.Repeat(name+" ", words))
	endpoint, why := w.chosen(body)
	return endpoint, strings.TrimPrefix(why, "policy=prefix_affinity; reason=")
}

func (w *kvWorld) endpoint(id string) permits.EndpointStats {
	w.T.Helper()
	for _, e := range w.Pool("ams", "kv").Endpoints {
		if e.ID == id {
			return e
		}
	}
	w.T.Fatalf("no endpoint %s", id)
	return permits.EndpointStats{}
}

// await waits until the prefix cache of an endpoint is as wanted.
func (w *kvWorld) await(id, what string, ok func(e permits.EndpointStats, c permits.CacheStats) bool) {
	w.T.Helper()
	defer func() {
		if e := w.endpoint(id); w.T.Failed() {
			w.T.Logf("%+v", e)
			if e.Cache != nil && e.Cache.Events != nil {
				w.T.Logf("%+v %+v", *e.Cache, *e.Cache.Events)
			}
		}
	}()
	testkit.WaitFor(w.T, what, func() bool {
		e := w.endpoint(id)
		return e.Cache != nil && ok(e, *e.Cache)
	})
}

func connected(_ permits.EndpointStats, c permits.CacheStats) bool {
	return c.Events != nil && c.Events.Connected
}

// A prompt goes to the engine that has its beginning, and not any more once that engine has emptied its cache.
func TestClearedCacheIsNotPreferred(t *testing.T) {
	t.Parallel()
	one, two := startCached(t, "one", 1000), startCached(t, "two", 1000)
	w := startKV(t, "auto", one, two)
	w.await("one", "a subscription", connected)
	w.await("two", "a subscription", connected)
	first, why := w.ask("talk", 400)
	if why != "prefix_none" {
		t.Errorf("at first by %s", why)
	}
	for words := 410; words < 450; words += 10 {
		if endpoint, why := w.ask("talk", words); endpoint != first || why != "prefix" {
			t.Errorf("at %s by %s, and the first at %s", endpoint, why, first)
		}
	}
	engine := map[string]*cachedEngine{"one": one, "two": two}[first]
	w.await(first, "resident tokens", func(_ permits.EndpointStats, c permits.CacheStats) bool {
		return c.Events.ResidentTokens != nil && *c.Events.ResidentTokens >= 400 && c.Losses == 0
	})
	engine.ClearCache()
	w.await(first, "an empty index", func(e permits.EndpointStats, c permits.CacheStats) bool { return e.Indexed == 0 && c.Losses == 1 })
	if _, why := w.ask("talk", 450); why != "prefix_none" {
		t.Errorf("after the cache was emptied, by %s", why)
	}
}

// An engine that begins anew has nothing in its cache, which a colo server finds without its metrics, by the port that refuses connections or
// by the events.
func TestRestartedEngineIsNotPreferred(t *testing.T) {
	t.Parallel()
	e := startCached(t, "one", 1000)
	w := startKV(t, "never", e)
	w.await("one", "a subscription", connected)
	w.ask("talk", 400)
	if _, why := w.ask("talk", 410); why != "prefix" {
		t.Errorf("before by %s", why)
	}
	e.stop()
	w.await("one", "the end of the engine", func(e permits.EndpointStats, c permits.CacheStats) bool {
		return e.State != "up" && e.Indexed == 0 && c.Losses == 1 && c.Events.Error != ""
	})
	e.run(1000)
	w.await("one", "the engine", func(e permits.EndpointStats, c permits.CacheStats) bool { return e.State == "up" && connected(e, c) })
	if _, why := w.ask("talk", 420); why != "prefix_none" {
		t.Errorf("after the restart by %s", why)
	}
	if _, why := w.ask("talk", 430); why != "prefix" {
		t.Errorf("then by %s", why)
	}
}

// The index takes no more for cached than the engine has room for, by its events alone and by its metrics alone.
func TestIndexFollowsTheCache(t *testing.T) {
	t.Parallel()
	for name, metrics := range map[string]string{"events": "never", "metrics": "auto"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startCached(t, "one", 64) // 1024 tokens of about five bytes
			if name == "metrics" {
				e.events = "127.0.0.1:1" // nothing is there
			}
			w := startKV(t, metrics, e)
			if name == "events" {
				w.await("one", "a subscription", connected)
			}
			for n := range 16 {
				w.ask(fmt.Sprint("t", 10+n), 400) // 1.6 KiB each
			}
			w.await("one", "a size", func(e permits.EndpointStats, c permits.CacheStats) bool {
				return c.SizeBytes != nil && *c.SizeBytes > 2<<10 && *c.SizeBytes < 8<<10 && e.Indexed > 0 && e.Indexed <= *c.SizeBytes
			})
			if _, why := w.ask("t10", 410); why != "prefix_none" {
				t.Errorf("what was evicted is preferred by %s", why)
			}
		})
	}
}

// A publisher that is away, slow or speaks something else keeps no request and no end of the fleet; it is shown, and read once it publishes.
func TestBadPublishersHinderNothing(t *testing.T) {
	t.Parallel()
	const head = "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00NULL\x00"
	ready := head + strings.Repeat("\x00", 64-len(head)) + "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"
	for name, sends := range map[string]string{
		"away":         "", // nothing listens
		"silent":       " ",
		"another":      "HTTP/1.1 400 Bad Request\r\n\r\n" + strings.Repeat("x", 100),
		"half a frame": ready + "\x02\x00\x00\x00\x00\x00\x3f\xff\xff" + strings.Repeat("x", 1000),
		"garbage":      ready + strings.Repeat("\x01\x00\x01\x08\x00\x00\x00\x00\x00\x00\x00\x01\x00\x03\xc1\xc1\xc1", 1000),
		"too long":     ready + "\x02\x7f\xff\xff\xff\xff\xff\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startCached(t, "one", 1000)
			events := e.events
			if ln := listen(t, "127.0.0.1:0"); name == "away" {
				e.events = ln.Addr().String()
				ln.Close()
			} else {
				e.events = ln.Addr().String()
				publishBadly(t, ln, strings.TrimSpace(sends))
			}
			w := startKV(t, "never", e)
			w.await("one", "a follower", func(_ permits.EndpointStats, c permits.CacheStats) bool { return c.Events != nil })
			if _, why := w.ask("talk", 400); why != "prefix_none" {
				t.Errorf("at first by %s", why)
			}
			if _, why := w.ask("talk", 410); why != "prefix" {
				t.Errorf("then by %s", why)
			}
			switch name {
			case "away", "another", "too long":
				w.await("one", "an error", func(_ permits.EndpointStats, c permits.CacheStats) bool { return c.Events.Error != "" })
				problem := fmt.Sprintf(`colonnade_problems{kind="%s",severity="warning"}`, reasons.EngineEventsUnread)
				testkit.WaitFor(t, "the problem", func() bool { return w.Metric(w.Colos[0].Admin, problem) == 1 })
			case "garbage":
				w.await("one", "gaps", func(_ permits.EndpointStats, c permits.CacheStats) bool { return c.Events.Gaps > 0 })
			}
			document := fmt.Sprintf("key: endpoints/ams/one\nurl: http://%s\npool: kv\nengine: vllm\nconcurrency: 8\nkv_events: tcp://%s\n", e.address, events)
			w.ApplyAndWait(document, func() bool {
				return connected(w.endpoint("one"), *cmp.Or(w.endpoint("one").Cache, &permits.CacheStats{}))
			})
		})
	}
}

// publishBadly sends something to each connection, and leaves it open until the other side closes it.
func publishBadly(t *testing.T, ln net.Listener, sends string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(sends))
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
}
