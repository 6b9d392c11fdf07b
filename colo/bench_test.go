package colo

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/analytics/journal"
	"colonnade/analytics/metrics"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/openai"
)

// benchServer runs a server with one engine, which answers each request at once. It returns the server as its clients know it.
func benchServer(b *testing.B, keys *hop.Keys) peer.Server {
	engine, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	answer := `{"choices":[{"message":{"role":"assistant","content":"` + strings.Repeat("word ", 200) + `"}}],"usage":{"prompt_tokens":9,"completion_tokens":200}}`
	stub := &fasthttp.Server{CloseOnShutdown: true, Handler: func(rc *fasthttp.RequestCtx) {
		rc.SetContentType("application/json")
		rc.SetBodyString(answer)
	}}
	documents := document.NewSet()
	for key, text := range map[string]string{
		"models/m": "pool: p", "endpoints/ams/one": "url: http://" + engine.Addr().String() + "\npool: p\nconcurrency: 16",
	} {
		if err := documents.Put(key, []byte(text), 1); err != nil {
			b.Fatal(err)
		}
	}
	logger := slog.New(slog.DiscardHandler)
	log, err := journal.Open(journal.Config{Dir: b.TempDir(), Node: "ams-1", Logger: logger})
	if err != nil {
		b.Fatal(err)
	}
	s, err := New(Config{Colo: "ams", Node: "ams-1", Keys: keys, Log: log, Metrics: metrics.NewRegistry(), Logger: logger})
	if err != nil {
		b.Fatal(err)
	}
	s.Apply(documents.Table())
	ln, err := server.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = stub.Serve(engine) })
	running.Go(func() { _ = s.Run(ctx) })
	running.Go(func() { _ = s.Serve(ln) })
	b.Cleanup(func() {
		now, stop := context.WithCancel(ctx)
		stop()
		err := errors.Join(s.Shutdown(now, server.DrainTimings{}), stub.Shutdown())
		cancel()
		running.Wait()
		if err := errors.Join(err, log.Close()); err != nil {
			b.Error(err)
		}
	})
	return peer.Server{Colo: "ams", Node: "ams-1", Address: ln.Addr().String(), Boot: s.Boot(), Protocol: fleet.Protocol}
}

// BenchmarkRequest is what a plain request allocates in a colo server and its transport, and in the client of its sender.
func BenchmarkRequest(b *testing.B) {
	keys := hop.RandomKeys()
	send := (&peer.Client{Keys: keys, Transport: forwardtest.NewTransport(b)}).To(benchServer(b, keys))
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("a", 950) + `"}]}`)
	route, _ := openai.ParseRoute([]byte("POST"), []byte("/v1/chat/completions"))
	b.ReportAllocs()
	for b.Loop() {
		answer, err := send(b.Context(), &peer.Request{
			Token: hopFor("m"), Route: route, Body: body, Fields: []transport.Field{{Name: "Content-Type", Value: "application/json"}},
			Limits: peer.Limits{Connect: time.Second, End: time.Now().Add(time.Minute)},
		})
		if err != nil || answer.Response == nil {
			b.Fatalf("%+v %v", answer, err)
		}
		answer.Close()
	}
}
