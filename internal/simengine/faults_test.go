package simengine_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/internal/simengine"
)

// readAnswer returns all that a client can read after a request, head and framing included, until the engine closes the
// connection.
func readAnswer(t *testing.T, fault, path, body string) (string, simengine.Stats) {
	t.Helper()
	e, addr := start(t, fast())
	e.SetFault(simengine.Fault{Model: "m", Count: 1, Fault: fault})
	c := dial(t, addr)
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: engine\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	return c.rest(), e.Stats()
}

// The bytes on the wire of every fault that ends by itself.
func TestFaultsOnTheWire(t *testing.T) {
	const (
		chunked = "Transfer-Encoding: chunked\r\n"
		ended   = "0\r\n\r\n"
		plain   = `{"model":"m"}`
		stream  = `{"model":"m","stream":true}`
	)
	has := func(parts ...string) func(string) error {
		return func(s string) error {
			for _, p := range parts {
				if not, ok := strings.CutPrefix(p, "!"); ok && strings.Contains(s, not) {
					return fmt.Errorf("has %q", not)
				} else if !ok && !strings.Contains(s, p) {
					return fmt.Errorf("lacks %q", p)
				}
			}
			return nil
		}
	}
	empty := func(s string) error {
		if s != "" {
			return fmt.Errorf("is not empty")
		}
		return nil
	}
	deltas := func(n int, more ...string) func(string) error {
		return func(s string) error {
			if got := strings.Count(s, `"content":"`) - 1; got != n { // one is the role's
				return fmt.Errorf("has %d deltas, want %d", got, n)
			}
			return has(more...)(s)
		}
	}
	f := func(fault, body string, faulted uint64, check func(string) error) {
		t.Run(fault+" "+body, func(t *testing.T) {
			got, st := readAnswer(t, fault, "/v1/chat/completions", body)
			if err := check(got); err != nil {
				t.Errorf("%v: %.1500q", err, got)
			}
			if st.Faulted != faulted || st.Running != 0 || st.Requests != 1 {
				t.Errorf("stats %+v, want faulted %d", st, faulted)
			}
		})
	}
	f(simengine.FaultRefuse, plain, 0, empty)
	f(simengine.FaultRefuse, stream, 0, empty)
	f(simengine.FaultFull, plain, 0, has("HTTP/1.1 503 ", `"code":503`))
	f(simengine.FaultFull, stream, 0, has("HTTP/1.1 503 ", `"code":503`))
	f(simengine.FaultFull429, stream, 0, has("HTTP/1.1 429 ", `"code":429`))
	f(simengine.FaultFullInStream, plain, 0, has("HTTP/1.1 503 "))
	f(simengine.FaultFullInStream, stream, 0, has("HTTP/1.1 200 ", `data: {"error":{`, `"code":503`, "data: [DONE]", ended))
	f(simengine.FaultError400, stream, 0, has("HTTP/1.1 400 ", "application/json", `"code":400`))
	f(simengine.FaultError500, stream, 0, has("HTTP/1.1 500 ", "application/json", `"code":500`))
	f(simengine.FaultHTMLError, stream, 0, has("HTTP/1.1 502 ", "text/html", "<h1>"))
	f(simengine.FaultCutAtChunk, stream, 1, func(s string) error {
		if !strings.HasSuffix(s, "\n\n\r\n") {
			return fmt.Errorf("does not end with an event at the end of a chunk")
		}
		return deltas(3, chunked, "!"+ended, "![DONE]")(s)
	})
	f(simengine.FaultCutInChunk, stream, 1, func(s string) error {
		last := s[strings.LastIndex(s, "\r\n"):]
		if len(last) < 10 || strings.Contains(last, "\n\n") {
			return fmt.Errorf("does not end within a chunk")
		}
		return deltas(3, chunked, "![DONE]")(s)
	})
	f(simengine.FaultCutAtChunk, plain, 1, has(chunked, `{"id":"chatcmpl-`, "!"+ended))
	f(simengine.FaultCutInChunk, plain, 1, has(chunked, `{"id":"chatcmpl-`, "!"+ended))
	f(simengine.FaultCutUnframed, stream, 1, deltas(3, "Connection: close", "!chunked", "!Content-Length", "![DONE]"))
	f(simengine.FaultCutUnframed, plain, 1, has(`{"id":"chatcmpl-`, "Connection: close", "!chunked", "!Content-Length", "!finish_reason"))
	f(simengine.FaultAfterEnd, stream, 0, deltas(64, "[DONE]", `{"late":true}`, ended))
	f(simengine.FaultAfterEnd, plain, 0, has("Content-Length:", `"stop"`))
	f(simengine.FaultNoDone, stream, 1, deltas(3, ended, "![DONE]", `!"stop"`))
	f(simengine.FaultNoDone, plain, 0, has("Content-Length:", `"stop"`))
	f(simengine.FaultErrorThenDone, stream, 1, deltas(3, `data: {"error":{`, "data: [DONE]\n\n\r\n"+ended))
	f(simengine.FaultErrorThenDone, plain, 1, has("HTTP/1.1 500 "))
	f(simengine.FaultErrorThenCut, stream, 1, deltas(3, `data: {"error":{`, "![DONE]", "!"+ended))
	f(simengine.FaultErrorThenCut, plain, 1, has(chunked, `{"id":"chatcmpl-`, "!"+ended))
	f(simengine.FaultShortBody, plain, 1, has("Content-Length:", `"stop"`))
	f(simengine.FaultShortBody, stream, 1, has("Content-Length:", "[DONE]", "!chunked"))
	f(simengine.FaultMalformedHead, stream, 1, has("HTTP/banana"))
	f(simengine.FaultSlow, stream, 0, deltas(64, "[DONE]", ended))
	f(simengine.FaultPingFirst, stream, 0, deltas(64, "\r\n\r\n8\r\n: ping\n\n\r\n", "[DONE]", ended))
	f(simengine.FaultCloseIdle, stream, 0, deltas(64, "[DONE]", ended))
	f(simengine.FaultCloseIdle, plain, 0, has("Content-Length:", `"stop"`))
}

func TestFaultsOfResponses(t *testing.T) {
	const body = `{"model":"m","stream":true}`
	got, _ := readAnswer(t, simengine.FaultErrorThenDone, "/v1/responses", body)
	if !strings.Contains(got, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":7,") || strings.Contains(got, "[DONE]") {
		t.Errorf("after three deltas: %q", got)
	}
	got, _ = readAnswer(t, simengine.FaultFullInStream, "/v1/responses", body)
	if !strings.Contains(got, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,") {
		t.Errorf("as the first event: %q", got)
	}
}

// close_idle must look like keep-alive to a client that does not ask to close.
func TestCloseIdle(t *testing.T) {
	for _, body := range []string{`{"model":"m"}`, `{"model":"m","stream":true}`} {
		e, addr := start(t, fast())
		e.SetFault(simengine.Fault{Fault: simengine.FaultCloseIdle})
		c := dial(t, addr)
		c.post("/v1/chat/completions", body)
		if got := c.rest(); strings.Contains(got, "Connection: close") || !strings.HasSuffix(strings.TrimRight(got, "\r\n0"), "}") &&
			!strings.HasSuffix(got, "[DONE]\n\n\r\n0\r\n\r\n") {
			t.Errorf("%s: %q", body, got)
		}
		if st := e.Stats(); st.Served != 1 {
			t.Errorf("%s: stats %+v", body, st)
		}
	}
}

// Faults without an end last until the client leaves, and hold a slot until
// then.
func TestEndlessFaults(t *testing.T) {
	f := func(fault, body, await string, never string) {
		t.Run(fault+" "+body, func(t *testing.T) {
			e, addr := start(t, fast())
			e.SetFault(simengine.Fault{Model: "m", Fault: fault})
			c := dial(t, addr)
			c.post("/v1/chat/completions", body)
			if await != "" {
				c.await(await)
			}
			_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			got, err := io.ReadAll(c)
			if err == nil {
				t.Errorf("came to an end after %.300q", got)
			}
			if never != "" && strings.Contains(string(got), never) {
				t.Errorf("has %q in it", never)
			}
			if st := e.Stats(); st.Running != 1 {
				t.Errorf("stats %+v, want one running", st)
			}
			_ = c.CloseWrite()
			waitForStats(t, e, "it is aborted", func(st simengine.Stats) bool { return st.Running == 0 && st.Aborted == 1 })
		})
	}
	const plain, stream = `{"model":"m"}`, `{"model":"m","stream":true}`
	f(simengine.FaultStallHead, plain, "", "HTTP")
	f(simengine.FaultStallHead, stream, "", "HTTP")
	f(simengine.FaultStallStream, plain, `{"id":"chatcmpl-`, "total_tokens")
	f(simengine.FaultStallStream, stream, "takes", "its")
	f(simengine.FaultFlood1xx, stream, "HTTP/1.1 103 ", "200")
	f(simengine.FaultEndlessLine, stream, "data: \r\n1000\r\nxxxx", "\n\n")
	f(simengine.FaultEndlessLine, plain, `{"id":"`, `"}`)
}

func TestBothLengths(t *testing.T) {
	e, addr := start(t, fast())
	e.SetFault(simengine.Fault{Count: 1, Fault: simengine.FaultBothLengths})
	c := dial(t, addr)
	c.post("/v1/chat/completions", `{"model":"m"}`)
	c.await("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n")
	c.await("forged")
	c.await("\r\n0\r\n\r\n")
	c.post("/v1/chat/completions", `{"model":"m"}`) // a client that trusts such a connection
	waitForStats(t, e, "the reuse is counted", func(st simengine.Stats) bool { return st.Reused == 1 })
}

func TestBigAnswer(t *testing.T) {
	for _, body := range []string{`{"model":"m"}`, `{"model":"m","stream":true}`} {
		e, addr := start(t, simengine.Config{TTFT: -1})
		e.SetFault(simengine.Fault{Fault: simengine.FaultBigAnswer})
		resp := post(t, addr, "/v1/chat/completions", body)
		n, err := io.Copy(io.Discard, resp.Body)
		if err != nil || n < 50<<20 || n > 52<<20 {
			t.Errorf("%s: %d bytes, %v", body, n, err)
		}
		if st := e.Stats(); st.Bytes != uint64(n) || st.Served != 1 {
			t.Errorf("%s: stats %+v, want %d bytes", body, st, n)
		}
	}
}

func TestFaultsOverHTTP(t *testing.T) {
	_, addr := start(t, fast())
	f := func(method, body string, status int, want string) {
		t.Helper()
		req, _ := http.NewRequest(method, "http://"+addr+"/faults", strings.NewReader(body))
		req.Close = true
		resp, err := (&http.Client{Timeout: patience}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, resp); resp.StatusCode != status || !strings.Contains(got, want) {
			t.Errorf("%s %s: %d %s, want %d with %q", method, body, resp.StatusCode, got, status, want)
		}
	}
	status := func(model string, want int) {
		t.Helper()
		if resp := post(t, addr, "/v1/chat/completions", `{"model":"`+model+`"}`); resp.StatusCode != want {
			t.Errorf("model %s: %d, want %d", model, resp.StatusCode, want)
		}
	}
	f("POST", `{"model":"m","fault":"nonsense"}`, 400, strings.Join(simengine.Faults(), ", "))
	f("POST", `{"model":"m","fault":"full","count":-1}`, 400, "count: -1")
	f("POST", `{"fault":"full","cuont":1}`, 400, "cuont")
	f("POST", `{"model":"m","count":2,"fault":"full"}`, 204, "")
	f("GET", ``, 200, `[{"model":"m","count":2,"fault":"full"}]`)
	status("n", 200)
	status("m", 503)
	status("m", 503)
	status("m", 200)
	f("POST", `{"model":"","fault":"error500"}`, 204, "")
	f("POST", `{"model":"m","fault":"error400"}`, 204, "")
	for range 3 {
		status("n", 500)
		status("m", 400)
	}
	f("DELETE", ``, 204, "")
	status("n", 200)
	status("m", 200)
}

func TestSetFaultPanicsOnMisuse(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "simengine: fault: \"nonsense\"") {
			t.Errorf("panicked with %s", got)
		}
	}()
	simengine.New(fast()).SetFault(simengine.Fault{Fault: "nonsense"})
}
