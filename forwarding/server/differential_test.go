package server_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"
	"colonnade/openai"
)

// reader is a server that reads requests as each handler does, and keeps them.
type reader struct {
	address string

	mu   sync.Mutex // guards the field below
	read map[string][]readAs
}

// readAs is a request as the server or net/http has read it.
type readAs struct {
	method, target, host string
	fields               map[string]string // by lower-case name; only those of relevantHeaders
	body                 string
}

// relevantHeaders returns the headers that a handler reads.
func relevantHeaders() []string {
	return []string{"content-type", "content-encoding", "authorization", "accept", "user-agent", hop.HeaderTraceParent, hop.HeaderRequestID, hop.HeaderToken, hop.HeaderQueue,
		hop.HeaderPriority, hop.HeaderDeadlineMS, hop.HeaderForceColo, hop.HeaderStainlessTimeout, "upgrade", "sec-websocket-key", "origin", "x-tenant"}
}

const mostBody = 64 << 10

func startReader(t testing.TB) *reader {
	inflight, err := server.NewInflight(slog.New(slog.DiscardHandler), server.DefaultBodyMemory)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{read: map[string][]readAs{}}
	srv := server.New(server.Config{
		Inflight: inflight, Logger: slog.New(slog.DiscardHandler),
		HandleError: func(rc *fasthttp.RequestCtx, e *openai.Error) { server.WriteError(rc, e, "") },
		RejectEarly: func(h *fasthttp.RequestHeader) bool { return server.CheckHead(h, mostBody) != nil },
		Handle: func(rc *fasthttp.RequestCtx) {
			c := inflight.Begin()
			defer c.Close()
			r.serve(c, rc)
		},
	})
	address, done := forwardtest.Start(t, srv)
	r.address = address
	t.Cleanup(func() {
		_ = srv.Shutdown(t.Context(), server.DrainTimings{}, nil)
		<-done
	})
	return r
}

func (r *reader) serve(c *server.Request, rc *fasthttp.RequestCtx) {
	h := &rc.Request.Header
	if err := server.CheckHead(h, mostBody); err != nil {
		server.WriteError(rc, err, "")
		rc.SetConnectionClose()
		return
	}
	as := readAs{method: string(h.Method()), target: string(h.RequestURI()), host: string(h.Host()), fields: map[string]string{}}
	body, err := c.ReadBody(rc, mostBody, "")
	if err != nil {
		server.WriteError(rc, err, "")
		return
	}
	as.body = string(body)
	for _, name := range relevantHeaders() {
		as.fields[name] = string(h.Peek(name))
	}
	from := rc.RemoteAddr().String()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read[from] = append(r.read[from], as)
	rc.SetBodyString("ok")
}

// send sends text, and returns the requests that the server has read.
func (r *reader) send(t testing.TB, text []byte) []readAs {
	t.Helper()
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(forwardtest.Patience))
	from := c.LocalAddr().String()
	go func() {
		_, _ = c.Write(text)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	if _, err := io.Copy(io.Discard, c); err != nil {
		t.Errorf("%q: the connection ended: %v", text, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	read := r.read[from]
	delete(r.read, from)
	return read
}

// compare reads text with net/http, and fails unless its requests are those that the server has read.
func compare(t testing.TB, text []byte, ours []readAs) {
	t.Helper()
	br := bufio.NewReaderSize(bytes.NewReader(text), 64<<10)
	for n, as := range ours {
		skipEmptyLines(br)
		r, err := http.ReadRequest(br)
		if err != nil {
			t.Fatalf("%q: request %d is %+v to the server, and to net/http: %v", text, n, as, err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatalf("%q: the body of request %d is %q to the server, and %q to net/http: %v", text, n, as.body, body, err)
		}
		theirs := readAs{method: r.Method, target: r.RequestURI, host: r.Host, body: string(body), fields: map[string]string{}}
		if r.Host == "" {
			as.host = "" // HTTP/1.0
		}
		for _, name := range relevantHeaders() {
			theirs.fields[name] = r.Header.Get(name)
		}
		if !strings.EqualFold(theirs.host, as.host) || len(r.Trailer) > 0 {
			t.Fatalf("%q: host %q to the server, %q with trailers %v to net/http", text, as.host, theirs.host, r.Trailer)
		}
		theirs.host = as.host
		if fmt.Sprint(as) != fmt.Sprint(theirs) {
			t.Fatalf("%q: request %d is %+v to the server, and %+v to net/http", text, n, as, theirs)
		}
	}
}

// skipEmptyLines skips the empty lines that may precede a request line (RFC 9112, section 2.2), which net/http refuses.
func skipEmptyLines(br *bufio.Reader) {
	for {
		b, _ := br.Peek(2)
		switch {
		case len(b) == 2 && string(b) == "\r\n":
			_, _ = br.Discard(2)
		default:
			return
		}
	}
}

// canary follows each text. A server that reads it has found where the text's last request ends.
const canary = "GET /behind HTTP/1.1\r\nHost: behind\r\nConnection: close\r\n\r\n"

// A request that the server accepts is read alike by net/http: method, target, host, headers, body, and the begin of the next request.
func FuzzServer(f *testing.F) {
	r := startReader(f)
	for _, text := range differentialSeeds() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 12<<10 {
			return
		}
		text = append(bytes.Clone(text), canary...)
		compare(t, text, r.send(t, text))
	})
}
