package server_test

import (
	"testing"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/server"
	"colonnade/openai"
)

// Refusals name their request where the SDKs of the path's API look for it.
func TestWriteErrorNamesRequest(t *testing.T) {
	f := func(path, version, anthropic string) {
		t.Helper()
		var rc fasthttp.RequestCtx
		rc.Request.SetRequestURI(path)
		if version != "" {
			rc.Request.Header.Set("anthropic-version", version)
		}
		server.WriteError(&rc, openai.Internal(), "id-1")
		h := &rc.Response.Header
		if got := string(h.Peek("x-request-id")); got != "id-1" {
			t.Errorf("%s: x-request-id %q", path, got)
		}
		if got := string(h.Peek("request-id")); got != anthropic {
			t.Errorf("%s: request-id %q, want %q", path, got, anthropic)
		}
	}
	f("/v1/chat/completions", "", "")
	f("/v1/messages", "", "id-1")
	f("/v1/models", "", "")
	f("/v1/models", "2023-06-01", "id-1")
}
