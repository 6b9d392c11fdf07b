package engines

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Bounds of what is believed and waited for.
const (
	askTime     = 20 * time.Second // all pages of an engine
	pageTime    = 5 * time.Second
	pageSize    = 4 << 20
	headSize    = 64 << 10
	userAgent   = "colonnade"
	contentJSON = "application/json"
)

// inquiry asks one engine for its pages.
type inquiry struct {
	url    string
	client *http.Client
	before *Engine // its last answer; nil = none
	key    string  // its API key; "" = none

	keyAdvice string        // what to do about an engine that wants another key
	pageTime  time.Duration // bound of each page
}

// newInquiry returns an inquiry whose name is resolved anew: it begins without connections. The caller closes the client's idle connections.
func newInquiry(url string) inquiry {
	return inquiry{
		url: url, pageTime: pageTime,
		keyAdvice: "describe it in a document endpoints/<colo>/<endpoint> with a credential (flag -config), or start it without a key",
		client: &http.Client{
			// No proxy: forwarding/transport uses none either.
			Transport:     &http.Transport{MaxResponseHeaderBytes: headSize, MaxConnsPerHost: 1},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// page is an answer that has a meaning: its status is below 500 and none of 401, 403 and 429.
type page struct {
	request string // such as "GET /v1/models"
	status  int
	kind    string // content type
	body    []byte
}

// get asks for a page. The error is a *NotEngineError for an answer that no engine gives to a client that may use it; any other
// error says that the engine is not up.
func (q inquiry) get(ctx context.Context, path string) (page, error) {
	p, err := q.do(ctx, http.MethodGet, path, "")
	if err != nil {
		return p, err
	}
	switch {
	case p.status == http.StatusUnauthorized || p.status == http.StatusForbidden:
		return p, &NotEngineError{URL: q.url, Answer: p.String(), Advice: "it wants an API key: " + q.keyAdvice}
	case p.failed():
		return p, q.notUp(errors.New(p.String()))
	case p.status >= 300 && p.status < 400:
		return p, q.notEngine(p)
	}
	return p, nil
}

// optional is get for a page that an engine may keep from clients: after /v1/models was readable, that means no more than that the engine
// does not say what stands there.
func (q inquiry) optional(ctx context.Context, path string) (page, error) {
	p, err := q.get(ctx, path)
	if unusable := (*NotEngineError)(nil); errors.As(err, &unusable) {
		return page{}, nil
	}
	return p, err
}

// probe is get for a page that only some kinds of engines have: any status is an answer. But an engine that was of such a kind, and
// fails to answer now, has not become another one.
func (q inquiry) probe(ctx context.Context, path string, kinds ...string) (page, error) {
	p, err := q.do(ctx, http.MethodGet, path, "")
	if err == nil && p.failed() && q.before != nil && slices.Contains(kinds, q.before.Kind) {
		return p, q.notUp(errors.New(p.String()))
	}
	return p, err
}

func (q inquiry) post(ctx context.Context, path string, body any) (page, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return page{}, fmt.Errorf("cannot write a request: %w", err)
	}
	return q.do(ctx, http.MethodPost, path, string(text))
}

func (q inquiry) do(ctx context.Context, method, path, body string) (page, error) {
	ctx, cancel := context.WithTimeout(ctx, q.pageTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, q.url+path, strings.NewReader(body))
	if err != nil {
		return page{}, fmt.Errorf("cannot make a request: %w", err)
	}
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set("Accept", contentJSON)
	if q.key != "" {
		request.Header.Set("Authorization", "Bearer "+q.key)
	}
	if body != "" {
		request.Header.Set("Content-Type", contentJSON)
	}
	response, err := q.client.Do(request)
	if err != nil {
		return page{}, q.failure(err)
	}
	defer response.Body.Close()
	p := page{request: method + " " + path, status: response.StatusCode, kind: response.Header.Get("Content-Type")}
	p.body, err = io.ReadAll(io.LimitReader(response.Body, pageSize+1))
	if err != nil {
		return p, q.failure(err)
	}
	if isGateway(response.Header) {
		return p, &NotEngineError{URL: q.url, Answer: "it is Colonnade, this process or another",
			Advice: "give the URL of the engine itself, and not that of -listen or of an entry"}
	}
	if len(p.body) > pageSize {
		p.body = p.body[:pageSize]
		return p, &NotEngineError{URL: q.url, Answer: fmt.Sprintf("%s has more than %d MiB", p.request, pageSize>>20), Advice: giveEngine}
	}
	return p, nil
}

// isGateway reports whether an answer is from this process itself, or from another that grants permits on engines.
func isGateway(header http.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, "X-Colonnade-") {
			return true
		}
	}
	return false
}

// failed reports whether the answer is that of an engine that cannot answer now.
func (p page) failed() bool {
	return p.status == http.StatusTooManyRequests || p.status >= 500 && p.status != http.StatusNotImplemented
}

// into reads a page into v, and reports whether it is a JSON object of an engine. Fields of another type than expected are
// left as they are.
func (p page) into(v any) bool {
	if p.status != http.StatusOK || !bytes.HasPrefix(bytes.TrimLeft(p.body, " \t\r\n"), []byte("{")) {
		return false
	}
	err := json.Unmarshal(p.body, v)
	mismatch := (*json.UnmarshalTypeError)(nil)
	return err == nil || errors.As(err, &mismatch)
}

// String returns the request and the beginning of the answer.
func (p page) String() string {
	text := fmt.Sprintf("%s answers %d %s", p.request, p.status, http.StatusText(p.status))
	kind, _, _ := strings.Cut(p.kind, ";")
	body := printable(string(p.body[:min(len(p.body), maxShown)]))
	switch {
	case len(p.body) == 0:
		return text
	case kind == "":
		return text + ": " + body
	}
	return text + " (" + printable(kind) + "): " + body
}

func (q inquiry) notEngine(p page) error {
	return &NotEngineError{URL: q.url, Answer: p.String(), Advice: giveEngine}
}

// failure returns the error of a request without an answer. Only what cannot be the beginning of an engine is a *NotEngineError:
// a connection that is closed at once may be a container's port before the engine listens.
func (q inquiry) failure(err error) error {
	text, untrusted := err.Error(), (*tls.CertificateVerificationError)(nil)
	switch {
	case errors.As(err, &untrusted):
		return &NotEngineError{URL: q.url, Answer: "its certificate is not valid: " + printable(untrusted.Err.Error()),
			Advice: "give it a certificate that this machine trusts, or use http://"}
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return &NotEngineError{URL: q.url, Answer: "it speaks HTTP without TLS", Advice: "write http:// instead of https://"}
	case strings.Contains(text, "readLoopPeekFail"): // which is how net/http reports bytes that came before the request was sent
		return &NotEngineError{URL: q.url, Answer: "it does not speak HTTP: it speaks before it is asked", Advice: giveEngine}
	case strings.Contains(text, "malformed HTTP"):
		return &NotEngineError{URL: q.url, Answer: "it does not speak HTTP: " + printable(text[strings.Index(text, "malformed HTTP"):]),
			Advice: giveEngine + "; an engine with TLS has a URL with https://"}
	}
	return q.notUp(q.shorter(err))
}

func (q inquiry) notUp(reason error) error { return fmt.Errorf("%s: %w", q.url, reason) }

// shorter returns an error as operators read it. It has no port of this side, so that it is the same each time.
func (q inquiry) shorter(err error) error {
	name, timeout, number := (*net.DNSError)(nil), net.Error(nil), syscall.Errno(0)
	switch {
	case errors.As(err, &name):
		return fmt.Errorf("cannot resolve %s: %w", name.Name, errors.New(name.Err))
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("no answer within %v", q.pageTime)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		strings.Contains(err.Error(), "server closed idle connection"):
		return errors.New("it closes the connection without an answer")
	case errors.As(err, &number):
		return number
	}
	return err
}
