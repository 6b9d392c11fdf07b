package colo

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"colonnade/admission"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/permits"
)

// Only what shows how busy an engine is moves a limit that is found: the first token of a stream, or that it had not come
// when the client left or a timeout passed.
func TestFirstByteMovesLimit(t *testing.T) {
	f := func(what string, api openai.API, took time.Duration, tell func(*call), falls bool) {
		t.Helper()
		quiet := &Server{config: Config{Logger: slog.New(slog.DiscardHandler)}}
		c := &call{server: quiet, request: &peer.Request{Route: openai.Route{API: api}}, model: &fleet.Model{}, body: openai.Body{Stream: true}}
		c.sent = time.Now()
		c.firstByte = c.sent.Add(took)
		if got := limitFalls(t, c, tell); got != falls {
			t.Errorf("%s after %v: the limit falls: %v, want %v", what, took, got, falls)
		}
	}
	class := func(k openai.EngineClass) func(*call) { return func(c *call) { c.observeFirstByte(k) } }
	failed := func(err error) func(*call) { return func(c *call) { c.classify(nil, err) } }
	const usual, late = 100 * time.Millisecond, 2 * time.Second
	f("a token of a chat", openai.Chat, late, class(openai.Relay), true)
	f("a token of a chat", openai.Chat, usual, class(openai.Relay), false)
	f("a token of a completion", openai.Completions, late, class(openai.Relay), true)
	f("an event of a response", openai.Responses, late, class(openai.Relay), false)
	f("a token of Ollama's chat", openai.OllamaChat, late, class(openai.Relay), true)
	f("a token of TGI's own API", openai.Generate, late, class(openai.Relay), true)
	f("a piece of speech", openai.Speech, late, class(openai.Relay), false)
	f("an unstreamed answer", openai.Chat, late, func(c *call) { c.body.Stream = false; c.observeFirstByte(openai.Relay) }, false)
	f("a refusal", openai.Chat, late, class(openai.ClientError), false)
	f("full", openai.Chat, late, class(openai.Full), false)

	gone := server.ErrClientGone
	f("a client that leaves", openai.Chat, late, failed(gone), true)
	f("a client that leaves", openai.Chat, usual+Linger, failed(gone), false)
	f("a client that leaves before a response", openai.Responses, late, failed(gone), false)
	exchange := func(phase transport.Phase, timeout bool) func(*call) {
		return failed(&transport.ExchangeError{Phase: phase, Timeout: timeout, Err: errors.New("failed")})
	}
	f("no first byte in time", openai.Chat, late, exchange(transport.PhaseFirstByte, true), true)
	f("an engine that broke", openai.Chat, late, exchange(transport.PhaseFirstByte, false), false)
	f("no connection in time", openai.Chat, late, exchange(transport.PhaseConnect, true), false)
	f("a cut answer", openai.Chat, late, exchange(transport.PhaseStream, true), false)
	f("a credential that cannot be used", openai.Chat, late, failed(&credentialError{err: errors.New("none")}), false)
}

// limitFalls says whether a limit of 16, at which a first token takes 100 ms, falls after forty such observations.
func limitFalls(t *testing.T, c *call, tell func(*call)) bool {
	t.Helper()
	docs := document.NewSet()
	if err := docs.Put("endpoints/ams/one", []byte("url: http://one:8000\nengine: vllm\npool: p\nconcurrency: auto"), 1); err != nil {
		t.Fatal(err)
	}
	d := admission.NewManager("ams", nil, slog.New(slog.DiscardHandler))
	d.Apply(docs.Table())
	c.pool, _ = d.Pool("p")
	take := func() admission.Grant {
		g, err := c.pool.Acquire(context.Background(), &permits.Request{Account: "a", MaxExpected: -1})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for range 16 {
		g := take()
		c.pool.ObserveFirstByte(g, admission.FirstByte{After: 100 * time.Millisecond, Token: true})
		g.Release()
	}
	for range 15 {
		defer take().Release()
	}
	for range 40 {
		c.grant = take()
		tell(c)
		c.grant.Release()
		if c.pool.Load().Limit < 16 {
			return true
		}
	}
	return false
}
