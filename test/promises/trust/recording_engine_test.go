package trust_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
)

// tape is an engine that records every byte that it gets. It is the model "own" in ams.
type tape struct {
	address string
	answer  func(*http.Request) string

	mu      sync.Mutex // guards the fields below
	heard   []string   // requests as they came, but for health checks
	garbled []string   // what was not a request
}

func startTape(t testing.TB) (*tape, string) {
	return startAnsweringTape(t, func(*http.Request) string { return plainOK })
}

func startAnsweringTape(t testing.TB, answer func(*http.Request) string) (*tape, string) {
	e := &tape{answer: answer}
	e.address = testkit.Serve(t, func(c net.Conn) { // lasts until the fleet has ended
		_ = c.SetDeadline(time.Now().Add(4 * testkit.Timeout))
		e.serve(c)
	})
	return e, fleettest.StubEngineDocuments("http://" + e.address)
}

func (e *tape) serve(c net.Conn) {
	var raw bytes.Buffer
	br := bufio.NewReader(io.TeeReader(c, &raw))
	for {
		raw.Reset()
		r, err := http.ReadRequest(br)
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
		}
		if err == nil && br.Buffered() > 0 {
			err = errors.New("more than one request")
		}
		e.take(raw.String(), err, r)
		if err != nil {
			return
		}
		text := plainOK
		if !isProbe(r) {
			text = e.answer(r)
		}
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
	}
}

var plainOK = wiretest.EncodeResponse("200 OK", `{"id":"x"}`, "Content-Type: application/json")

func (e *tape) take(raw string, err error, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err != nil && raw != "":
		e.garbled = append(e.garbled, raw)
	case err == nil && !isProbe(r):
		e.heard = append(e.heard, raw)
	}
}

// isProbe reports whether a request is a health check.
func isProbe(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Upgrade") == ""
}

// rewind returns what was recorded since the last call.
func (e *tape) rewind() (heard, garbled []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	heard, garbled, e.heard, e.garbled = e.heard, e.garbled, nil, nil
	return heard, garbled
}

var (
	anyID    = regexp.MustCompile(`x-request-id: [0-9a-f]{32}\r\n`)
	anyTrace = regexp.MustCompile(`traceparent: 00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]\r\n`) // of an entry, or of a colo server without one: these nodes trace
)

// wanted is how a request with a body must arrive, without its id and its trace.
func (e *tape) wanted(body string) string {
	return "POST /v1/chat/completions HTTP/1.1\r\nHost: " + e.address + "\r\nContent-Type: application/json\r\nAccept-Encoding: identity\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// check expects requests with these bodies, byte by byte, and nothing else.
func (e *tape) check(t testing.TB, name string, bodies ...string) {
	t.Helper()
	heard, garbled := e.rewind()
	for _, g := range garbled {
		t.Errorf("%q: the engine got bytes that are not a request: %.300q", name, g)
	}
	if len(heard) != len(bodies) {
		t.Errorf("%q: the engine got %d requests, want %d: %.300q", name, len(heard), len(bodies), strings.Join(heard, " | "))
		return
	}
	for i, body := range bodies {
		if got := anyID.ReplaceAllString(anyTrace.ReplaceAllString(heard[i], ""), ""); got != e.wanted(body) || !anyID.MatchString(heard[i]) {
			t.Errorf("%q: the engine got %.500q, want %.500q", name, heard[i], e.wanted(body))
		}
	}
}
