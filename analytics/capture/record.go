package capture

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"sync"
	"time"
	"unicode/utf8"

	"colonnade/fleet"
)

// Request is what is known of a request before its body.
type Request struct {
	ID       string // of the entry
	ClientID string // the client's x-request-id, if it can be a label
	Method   string
	Path     string            // without the query
	Headers  map[string]string // without any that may have a key
}

// Record takes what passes of one request. It is for several goroutines at once, and all methods may be called on a record that has ended.
type Record struct {
	capture *fleet.Capture
	node    string
	memory  *memory
	over    context.Context // nothing is taken any more when it ends
	onEnd   func(*Record)
	began   time.Time

	mu       sync.Mutex // guards the fields below
	request  Request
	status   int
	headers  map[string]string // of the response
	sent     body              // by the client
	answered body
	done     time.Time // zero = open
	early    bool      // ended before the request
}

// body is a body, as far as it is kept.
type body struct {
	kept []byte
	size int64 // of the whole
}

// Until returns when the capture ends.
func (r *Record) Until() time.Time { return r.capture.Until }

// Describe sets what is known of the request.
func (r *Record) Describe(request Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.request = request
}

// RequestBody takes a copy of the body of the request.
func (r *Record) RequestBody(p []byte) { r.take(&r.sent, p) }

// Answer takes the head of the response.
func (r *Record) Answer(status int, headers map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.headers = status, headers
}

// ResponseBody takes a copy of a piece of the response's body.
func (r *Record) ResponseBody(p []byte) { r.take(&r.answered, p) }

// End ends the record, which is then written.
func (r *Record) End() {
	if r.close(false) {
		r.onEnd(r)
	}
}

// endEarly ends the record before its request has ended, unless that has.
func (r *Record) endEarly() {
	if r.close(true) {
		r.onEnd(r)
	}
}

func (r *Record) close(early bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done.IsZero() {
		return false
	}
	r.done, r.early = time.Now(), early
	return true
}

// take appends a copy of p to a body of the record, as far as it may be kept.
func (r *Record) take(b *body, p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done.IsZero() || r.over.Err() != nil {
		return
	}
	whole := b.size == int64(len(b.kept))
	b.size += int64(len(p))
	room := r.capture.MaxBytes.Int() - len(b.kept)
	if !whole || room <= 0 { // a piece that did not fit leaves no gap
		return
	}
	p = p[:min(len(p), room)]
	if !r.memory.take(len(p)) {
		return
	}
	b.kept = append(b.kept, p...)
}

// held returns how much of the memory of all records this one has. The record has ended.
func (r *Record) held() int { return len(r.sent.kept) + len(r.answered.kept) }

// line is a record as it is written.
type line struct {
	Time            time.Time         `json:"time"`
	Ended           time.Time         `json:"ended"`
	Capture         string            `json:"capture"`
	Account         string            `json:"account"`
	Node            string            `json:"node"`
	RequestID       string            `json:"request_id"`
	ClientRequestID string            `json:"client_request_id,omitempty"`
	Method          string            `json:"method"`
	Path            string            `json:"path"`
	RequestHeaders  map[string]string `json:"request_headers"`
	RequestBody     string            `json:"request_body,omitempty"`
	RequestBase64   string            `json:"request_body_base64,omitempty"` // of a body that is no text
	RequestBytes    int64             `json:"request_bytes"`
	RequestCut      bool              `json:"request_cut,omitempty"`
	Status          int               `json:"status,omitempty"`
	ResponseHeaders map[string]string `json:"response_headers,omitempty"`
	ResponseBody    string            `json:"response_body,omitempty"`
	ResponseBase64  string            `json:"response_body_base64,omitempty"`
	ResponseBytes   int64             `json:"response_bytes"`
	ResponseCut     bool              `json:"response_cut,omitempty"`
	Unfinished      bool              `json:"unfinished,omitempty"` // the capture ended before the request
}

// appendLine appends the record as a line of JSON. The record has ended.
func (r *Record) appendLine(dst []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.capture
	l := line{
		Time: r.began.UTC(), Ended: r.done.UTC(), Capture: c.Name, Account: c.Account, Node: r.node,
		RequestID: r.request.ID, ClientRequestID: r.request.ClientID, Method: r.request.Method, Path: r.request.Path, RequestHeaders: r.request.Headers,
		RequestBytes: r.sent.size, RequestCut: r.sent.isCut(), Status: r.status, ResponseHeaders: r.headers,
		ResponseBytes: r.answered.size, ResponseCut: r.answered.isCut(), Unfinished: r.early,
	}
	l.RequestBody, l.RequestBase64 = r.sent.text()
	l.ResponseBody, l.ResponseBase64 = r.answered.text()
	out := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(&l) // cannot fail: texts, numbers and times of this century
	return out.Bytes()
}

// isCut reports whether a part of the body is missing.
func (b *body) isCut() bool { return b.size > int64(len(b.kept)) }

// text returns what is kept as text, or in base64 if it is none.
func (b *body) text() (text, base string) {
	kept := b.kept
	if b.isCut() { // perhaps inside of a character
		for i := 1; i < utf8.UTFMax && i <= len(kept); i++ {
			if tail := kept[len(kept)-i:]; utf8.RuneStart(tail[0]) {
				if !utf8.FullRune(tail) {
					kept = kept[:len(kept)-i]
				}
				break
			}
		}
	}
	if utf8.Valid(kept) {
		return string(kept), ""
	}
	return "", base64.StdEncoding.EncodeToString(b.kept)
}
