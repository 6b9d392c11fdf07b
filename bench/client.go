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

// client sends streamed chat completions to one address and reads what comes, over plain HTTP/1.1 connections that are
// kept. It is lean, since it shares the machine with what it measures.
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
	tokenBytes int           // bytes of each token of the answer, if engines are simulated; 0: as they like
	deadline   time.Duration // as the gateway is told; 0: none
	timeout    time.Duration // after which no answer is a failure
	behaviour  behaviour
}

// behaviour is how a client behaves, once its request is sent.
type behaviour struct {
	disconnectAt time.Duration // in the trial, when it closes its connection; 0: never
	readRate     int           // bytes that it reads each second; 0: whatever comes
}

// clock counts moments from a trial's beginning.
type clock struct{ began time.Time }

func (c clock) now() time.Duration { return time.Since(c.began) }

// do sends one request and fills s with what came of it.
func (c *client) do(ctx context.Context, clock clock, a *request, s *sample) {
	s.first, s.retryAfter, s.queued, s.ended = -1, -1, -1, -1
	defer func() { s.ended = clock.now() }()
	for {
		again, err := c.attempt(ctx, clock, a, s)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			s.outcome = unfinished
			return
		}
		if again {
			continue
		}
		s.problem = err.Error()
		return
	}
}

// attempt is do over one connection. again says that the connection was an old one that had ended before the request
// reached anybody, as every keep-alive connection may.
func (c *client) attempt(ctx context.Context, clock clock, a *request, s *sample) (again bool, err error) {
	var conn *conn
	if a.behaviour.readRate > 0 {
		conn, err = c.conns.dial(ctx, true)
	} else {
		conn, err = c.conns.get(ctx)
	}
	if err != nil {
		return false, err
	}
	keep := false
	leaving := c.scheduleDisconnect(clock, a, conn)
	// The context's end, too, closes the connection under whoever reads it.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		keep = stop() && leaving.stop() && keep
		c.conns.put(conn, keep)
		if leaving.happened() {
			s.outcome, s.problem, again, err = disconnected, "", false, nil
		}
	}()
	_ = conn.SetReadDeadline(time.Now().Add(a.timeout))
	s.sent = clock.now()
	if _, err := conn.Write(c.encode(a)); err != nil {
		return conn.used, err
	}
	if _, err := conn.in.Peek(1); err != nil {
		return conn.used && !isTimeout(err), err
	}
	keep, err = c.readResponse(clock, a, conn, s)
	return false, err
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

var streamed = &http.Request{Method: http.MethodPost}

// readResponse reads what came. keep says whether the connection can serve another request.
func (c *client) readResponse(clock clock, a *request, conn *conn, s *sample) (keep bool, err error) {
	r, err := http.ReadResponse(conn.in, streamed)
	if err != nil {
		return false, fmt.Errorf("no proper answer: %w", err)
	}
	defer r.Body.Close()
	s.status = r.StatusCode
	if r.StatusCode != http.StatusOK {
		s.readRefusal(r.Header)
		if s.isClientError() {
			s.message = messageOf(r.Body)
		}
		_, err := io.Copy(io.Discard, r.Body)
		if s.status == http.StatusTooManyRequests || s.status == http.StatusServiceUnavailable {
			s.outcome = refused
			return err == nil && !r.Close, nil
		}
		if s.status == http.StatusGatewayTimeout && a.deadline > 0 {
			s.outcome = expired
			return err == nil && !r.Close, nil
		}
		return err == nil && !r.Close, fmt.Errorf("status %d", s.status)
	}
	var body io.Reader = r.Body
	if a.behaviour.readRate > 0 {
		body = &throttledReader{from: body, rate: a.behaviour.readRate}
	}
	if err := c.readStream(clock, body, s); err != nil {
		return false, err
	}
	if s.outcome == completed && a.behaviour.readRate == 0 {
		keep = !r.Close
	}
	return keep, nil
}

// isClientError says whether it was told that the request itself is wrong: there is no use in sending it again.
func (s *sample) isClientError() bool {
	return s.status >= 400 && s.status < 500 && s.status != http.StatusTooManyRequests
}

// messageOf reads what an error says, as OpenAI's API has it, or else as it is.
func messageOf(body io.Reader) string {
	text, _ := io.ReadAll(io.LimitReader(body, 4<<10)) // as much as there is
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

// readRefusal notes what a refused client is told.
func (s *sample) readRefusal(h http.Header) {
	s.retryAfter = retryAfter(h, time.Now())
	s.reason = h.Get("X-Colonnade-Reason")
	if n, err := strconv.Atoi(h.Get("X-Colonnade-Queued-Ms")); err == nil {
		s.queued = time.Duration(n) * time.Millisecond
	}
}

// retryAfter reads when to come back, as SDKs do: retry-after-ms, or else Retry-After in seconds or as a date.
// Negative: it is not told.
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

// readStream reads a stream of server-sent events to its end. Comments are no data: a gateway may send them while a request
// waits.
func (c *client) readStream(clock clock, body io.Reader, s *sample) error {
	in := readers.Get().(*bufio.Reader)
	in.Reset(body)
	defer readers.Put(in)
	done, begun := false, false // begun: the line at hand was longer than the buffer
	for {
		line, err := in.ReadSlice('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && !begun && !done {
			data = bytes.TrimLeft(data, " ")
			switch {
			case bytes.HasPrefix(data, []byte("[DONE]")):
				done = true
			case bytes.HasPrefix(data, []byte(`{"error"`)):
				return fmt.Errorf("the stream says: %.200s", bytes.TrimSpace(data))
			default:
				if s.first < 0 {
					s.first = clock.now()
				}
				s.tokens++
			}
		}
		begun = errors.Is(err, bufio.ErrBufferFull)
		switch {
		case err == nil || begun:
		case errors.Is(err, io.EOF) && done:
			s.outcome = completed
			return nil
		default:
			return fmt.Errorf("the stream was cut after %d events: %w", s.tokens, err)
		}
	}
}

// encode is what goes over the wire.
func (c *client) encode(a *request) []byte {
	body := c.body(a)
	b := make([]byte, 0, len(body)+300)
	b = append(b, "POST "+c.path+" HTTP/1.1\r\nHost: "+c.host+"\r\nContent-Type: application/json\r\nAuthorization: "+
		"Bearer "+a.key...)
	if a.deadline > 0 {
		b = append(b, "\r\nX-Colonnade-Deadline-Ms: "+strconv.FormatInt(a.deadline.Milliseconds(), 10)...)
	}
	b = append(b, "\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"...)
	return append(b, body...)
}

func (c *client) body(a *request) string {
	words := strings.Repeat(" word", max(0, a.input-1))
	mark := ""
	if a.tokenBytes > 0 {
		mark = wideTag + strconv.Itoa(a.tokenBytes) + " "
	}
	return `{"model":"` + c.model + `","stream":true,"max_tokens":` + strconv.Itoa(a.tokens) +
		`,"messages":[{"role":"user","content":"` + mark + prompt(a.id, words) + `"}]}`
}
