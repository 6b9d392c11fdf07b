package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// client sends streamed chat completions to one address, over plain HTTP/1.1 connections that are kept. It does little work,
// since it shares the machine with what it measures.
type client struct {
	conns *conns
	host  string
	path  string
	model string
}

// newClient makes a client for a base URL, which ends in /v1.
func newClient(base, model string) (*client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("the gateway's URL %q: %w", base, err)
	}
	if u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("the gateway's URL %q: must begin with http:// and a host; "+
			"write for example http://127.0.0.1:8080/v1", base)
	}
	address := u.Host
	if u.Port() == "" {
		address += ":80"
	}
	return &client{conns: &conns{address: address}, host: u.Host,
		path: strings.TrimSuffix(u.Path, "/") + "/chat/completions", model: model}, nil
}

// request is one request to send.
type request struct {
	id         uint64
	key        string
	tokens     int           // of the answer, at most
	input      int           // words of the prompt
	tokenBytes int           // of each token of the answer, if engines are simulated; 0: as they are
	deadline   time.Duration // in the header; 0: none
	timeout    time.Duration // after which no answer is a failure
	behaviour  behaviour
}

// clock measures time since a trial began.
type clock struct{ began time.Time }

func (c clock) now() time.Duration { return time.Since(c.began) }

// do sends one request and fills s with what came of it.
func (c *client) do(ctx context.Context, clock clock, q *request, s *sample) {
	s.first, s.retryAfter, s.queued, s.ended = -1, -1, -1, -1
	defer func() { s.ended = clock.now() }()
	for {
		again, err := c.try(ctx, clock, q, s)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			s.outcome = unfinished
			return
		}
		if !again {
			s.problem = err.Error()
			return
		}
	}
}

// try is do over one connection. again says that the connection was an idle one that had ended before the request reached the
// gateway, as every keep-alive connection may.
func (c *client) try(ctx context.Context, clock clock, q *request, s *sample) (again bool, err error) {
	var conn *conn
	if q.behaviour.readRate > 0 {
		conn, err = c.conns.dial(ctx, true)
	} else {
		conn, err = c.conns.get(ctx)
	}
	if err != nil {
		return false, err
	}
	keep := false
	leaving := scheduleDisconnect(clock, q.behaviour, conn)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends a read that is blocked
	defer func() {
		keep = stop() && leaving.stop() && keep
		c.conns.put(conn, keep)
		if leaving.happened() {
			s.outcome, s.problem, again, err = disconnected, "", false, nil
		}
	}()
	_ = conn.SetReadDeadline(time.Now().Add(q.timeout))
	s.sent = clock.now()
	if _, err := conn.Write(c.encode(q)); err != nil {
		return conn.used, err
	}
	if _, err := conn.in.Peek(1); err != nil {
		var t net.Error
		return conn.used && !(errors.As(err, &t) && t.Timeout()), err
	}
	keep, err = c.readResponse(clock, q, conn, s)
	return false, err
}

var postRequest = &http.Request{Method: http.MethodPost}

// readResponse reads the answer. keep says whether the connection can serve another request.
func (c *client) readResponse(clock clock, q *request, conn *conn, s *sample) (keep bool, err error) {
	r, err := http.ReadResponse(conn.in, postRequest)
	if err != nil {
		return false, fmt.Errorf("malformed answer: %w", err)
	}
	defer r.Body.Close()
	if s.status = r.StatusCode; s.status != http.StatusOK {
		return s.readError(r, q)
	}
	var body io.Reader = r.Body
	if q.behaviour.readRate > 0 {
		body = &throttledReader{from: body, rate: q.behaviour.readRate}
	}
	if err := readStream(clock, body, s); err != nil {
		return false, err
	}
	return q.behaviour.readRate == 0 && !r.Close, nil
}

// readError reads an answer that is not 200.
func (s *sample) readError(r *http.Response, q *request) (keep bool, err error) {
	s.readRefusal(r.Header)
	if s.isClientError() {
		s.message = errorMessage(r.Body)
	}
	_, err = io.Copy(io.Discard, r.Body)
	keep = err == nil && !r.Close
	switch {
	case s.status == http.StatusTooManyRequests || s.status == http.StatusServiceUnavailable:
		s.outcome = refused
	case s.status == http.StatusGatewayTimeout && q.deadline > 0:
		s.outcome = expired
	default:
		return keep, fmt.Errorf("status %d", s.status)
	}
	return keep, nil
}

// errorMessage is the message of an error in the form of OpenAI's API, or the body.
func errorMessage(body io.Reader) string {
	text, _ := io.ReadAll(io.LimitReader(body, 4<<10)) // a part is better than nothing
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(text, &e) == nil && e.Error.Message != "" {
		text = []byte(e.Error.Message)
	}
	printable := func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}
	return strings.Join(strings.Fields(fmt.Sprintf("%.200s", strings.Map(printable, string(text)))), " ")
}

// readRefusal reads what the head tells a refused client.
func (s *sample) readRefusal(h http.Header) {
	s.retryAfter = retryAfter(h, time.Now())
	s.reason = h.Get("X-Colonnade-Reason")
	if n, err := strconv.Atoi(h.Get("X-Colonnade-Queued-Ms")); err == nil {
		s.queued = time.Duration(n) * time.Millisecond
	}
}

// retryAfter is when to come back, read as SDKs do: from retry-after-ms, or else from Retry-After in seconds or as a date. It
// is negative if there is neither.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if n, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil && n >= 0 {
		return time.Duration(n * float64(time.Millisecond))
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseFloat(v, 64); err == nil && n >= 0 {
		return time.Duration(n * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now))
	}
	return -1
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

// readStream reads a stream of server-sent events to its end. Comments, which a gateway may send while a request waits, are
// not counted.
func readStream(clock clock, body io.Reader, s *sample) error {
	in := readers.Get().(*bufio.Reader)
	in.Reset(body)
	defer readers.Put(in)
	done, partial := false, false // partial: the last read ended within a line longer than the buffer
	for {
		line, err := in.ReadSlice('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && !partial && !done {
			data = bytes.TrimLeft(data, " ")
			switch {
			case bytes.HasPrefix(data, []byte("[DONE]")):
				done = true
			case bytes.HasPrefix(data, []byte(`{"error"`)):
				return fmt.Errorf("error event: %.200s", bytes.TrimSpace(data))
			default:
				if s.first < 0 {
					s.first = clock.now()
				}
				s.tokens++
			}
		}
		partial = errors.Is(err, bufio.ErrBufferFull)
		switch {
		case err == nil || partial:
		case errors.Is(err, io.EOF) && done:
			s.outcome = completed
			return nil
		default:
			return fmt.Errorf("the stream was cut after %d events: %w", s.tokens, err)
		}
	}
}

// encode is the request as it goes over the wire.
func (c *client) encode(q *request) []byte {
	words := strings.Repeat(" word", max(0, q.input-1))
	body := `{"model":"` + c.model + `","stream":true,"max_tokens":` + strconv.Itoa(q.tokens) +
		`,"messages":[{"role":"user","content":"` + prompt(q) + words + `"}]}`
	b := make([]byte, 0, len(body)+300)
	b = append(b, "POST "+c.path+" HTTP/1.1\r\nHost: "+c.host+"\r\nContent-Type: application/json\r\nAuthorization: "+
		"Bearer "+q.key...)
	if q.deadline > 0 {
		b = append(b, "\r\nX-Colonnade-Deadline-Ms: "+strconv.FormatInt(q.deadline.Milliseconds(), 10)...)
	}
	b = append(b, "\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"...)
	return append(b, body...)
}
