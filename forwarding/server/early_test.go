package server_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"
	"colonnade/openai"
)

// After a response that does not wait for the request's body, no part of that body is taken for a request, however it is framed. If the
// connection continues, it does so after the body.
func TestResponsesBeforeTheBody(t *testing.T) {
	const hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, refuse := range map[string]func() *openai.Error{
		"401": func() *openai.Error { return openai.InvalidAPIKey("no key") },
		"413": func() *openai.Error { return openai.RequestTooLarge(1) },
		"429": func() *openai.Error { return openai.RateLimited("rate_limited", time.Second) },
		"503": func() *openai.Error { return openai.Unavailable("draining", time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			var handled, behind atomic.Int64
			s := forwardtest.Serve(t, func(rc *fasthttp.RequestCtx) {
				if string(rc.Path()) == "/behind" {
					behind.Add(1)
					return
				}
				handled.Add(1)
				server.WriteError(rc, refuse(), "")
			})
			for _, size := range []int{1, 400} {
				body := strings.Repeat(hidden, size)
				length := fmt.Sprintf("Content-Length: %d", len(body))
				for _, framing := range []string{length, "Transfer-Encoding: chunked"} {
					for _, more := range []string{"", "Expect: 100-continue\r\n", "Content-Type: multipart/form-data; boundary=GET\r\n", "Content-Type: multipart/form-data; boundary=GET\r\nExpect: 100-continue\r\n"} {
						sent := body
						if framing != length {
							sent = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
						}
						continues := framing == length && size == 1 // the whole body has arrived before the handler was called
						handled.Store(0)
						behind.Store(0)
						s.AssertAnsweredEarly(t, "POST /first HTTP/1.1\r\nHost: x\r\n"+more+framing+"\r\n\r\n"+sent, continues)
						if n := handled.Load(); n != 1 || behind.Load() != 0 != continues {
							t.Errorf("%s %q, %d bytes: %d requests handled, and %d behind it", framing, more, len(body), n, behind.Load())
						}
					}
				}
			}
			s.Stop(server.DrainTimings{})
		})
	}
}
