package acmecert

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 1 << 20
	// answerTimeout bounds one request to the authority.
	answerTimeout = 30 * time.Second
	// maxHold bounds for how long no request is sent at all. A limit that lasts longer is about one name: see [request].
	maxHold = time.Hour
	// maxRefused bounds the memory of invalid authorizations. The manager asks for one again within minutes.
	maxRefused = 1000
)

var (
	errNotRunning = errors.New("certificates are not requested now: this process starts or ends")
	// errHeld is returned instead of a request that the authority has asked not to send yet.
	errHeld = errors.New("the authority has asked to wait")
)

// caTransport sends the manager's requests to the certificate authority. It finds the failures in the answers, which the manager does not
// return, and holds requests back for as long as the authority asks, up to maxHold.
type caTransport struct {
	base   http.RoundTripper
	failed chan struct{} // has an element when there may be failures to take

	requests sync.WaitGroup // in flight

	mu        sync.Mutex // guards the fields below
	running   context.Context
	notBefore time.Time           // no request is sent before; zero = any time
	failures  map[string]error    // by name; those under "" are about no name
	refused   map[string]struct{} // the latest authorizations that are invalid, by URL: the manager asks for them again
}

func newCATransport(base http.RoundTripper) *caTransport {
	return &caTransport{base: base, failed: make(chan struct{}, 1), failures: map[string]error{}, refused: map[string]struct{}{}}
}

// run allows requests until ctx is done.
func (t *caTransport) run(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = ctx
}

// end waits for requests in flight, which end with the context of run, and closes the connections.
func (t *caTransport) end() {
	t.requests.Wait()
	(&http.Client{Transport: t.base}).CloseIdleConnections()
}

// heldUntil returns until when the authority has asked to wait.
func (t *caTransport) heldUntil() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.notBefore
}

// take returns the failures since its last call.
func (t *caTransport) take() map[string]error {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.failures
	t.failures = map[string]error{}
	return taken
}

// clear forgets the failures of a name that has a certificate now: one challenge may have failed before another one did not.
func (t *caTransport) clear(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.failures, name)
	delete(t.failures, "")
}

// RoundTrip sends a request and reads the whole answer.
func (t *caTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	running, err := t.admit()
	if err != nil {
		return nil, err
	}
	defer t.requests.Done()
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	defer context.AfterFunc(running, cancel)()
	answer, body, err := t.exchange(r.WithContext(ctx))
	if err != nil {
		if running.Err() == nil {
			t.fail("", fmt.Errorf("cannot reach %s: %w", r.URL.Host, err))
		}
		return nil, err
	}
	if !isCleanup(r) {
		t.inspect(r.URL.String(), answer, body)
	}
	return answer, nil
}

// isCleanup reports whether a request gives up an authorization, as the manager does after each failure: its own failure changes
// nothing.
func isCleanup(r *http.Request) bool {
	if r.GetBody == nil {
		return false
	}
	body, err := r.GetBody()
	if err != nil {
		return false
	}
	var message struct {
		Payload string `json:"payload"`
	}
	if json.NewDecoder(body).Decode(&message) != nil {
		return false
	}
	payload, err := base64.RawURLEncoding.DecodeString(message.Payload)
	return err == nil && bytes.Contains(payload, []byte(`"deactivated"`))
}

// admit returns the context of run, and counts a request.
func (t *caTransport) admit() (running context.Context, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.running == nil || t.running.Err() != nil:
		return nil, errNotRunning
	case time.Now().Before(t.notBefore):
		return nil, fmt.Errorf("%w until %s", errHeld, t.notBefore.UTC().Format(time.RFC3339))
	}
	t.requests.Add(1)
	return t.running, nil
}

func (t *caTransport) exchange(r *http.Request) (*http.Response, []byte, error) {
	answer, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	_ = answer.Body.Close()
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("its answer is larger than %d bytes", maxAnswer)
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, body, err
}

// inspect finds the failures in an answer: its status, or an authorization that the authority has refused.
func (t *caTransport) inspect(url string, answer *http.Response, body []byte) {
	if answer.StatusCode >= http.StatusBadRequest {
		p := problem{Status: answer.StatusCode}
		_ = json.Unmarshal(body, &p) // the status says enough
		if p.kind() != "badNonce" {  // it is sent again
			t.hold(answer)
			t.fail("", &p)
		}
		return
	}
	var z authorization
	if json.Unmarshal(body, &z) != nil || z.Status != "invalid" || !t.isFirst(url) {
		return // also a certificate
	}
	for _, c := range z.Challenges {
		if c.Error != nil {
			t.fail(strings.ToLower(z.Identifier.Value), fmt.Errorf("challenge %s: %w", c.Type, c.Error))
		}
	}
}

// isFirst reports whether an authorization was not invalid before.
func (t *caTransport) isFirst(url string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.refused[url]; known {
		return false
	}
	if len(t.refused) >= maxRefused {
		clear(t.refused)
	}
	t.refused[url] = struct{}{}
	return true
}

// hold reads Retry-After where the authority is overloaded, or limits requests.
func (t *caTransport) hold(answer *http.Response) {
	after := answer.Header.Get("Retry-After")
	if after == "" || answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode != http.StatusServiceUnavailable {
		return
	}
	until, err := http.ParseTime(after)
	if seconds, notNumber := strconv.ParseUint(after, 10, 31); notNumber == nil {
		until, err = time.Now().Add(time.Duration(seconds)*time.Second), nil
	}
	if err != nil {
		return
	}
	if most := time.Now().Add(maxHold); until.After(most) {
		until = most
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if until.After(t.notBefore) {
		t.notBefore = until
	}
}

func (t *caTransport) fail(name string, err error) {
	t.note(name, err)
	select {
	case t.failed <- struct{}{}:
	default:
	}
}

// note keeps a failure. Of a name, both challenges may have failed.
func (t *caTransport) note(name string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before := t.failures[name]; name != "" && before != nil {
		err = fmt.Errorf("%w; %w", before, err)
	}
	t.failures[name] = err
}

// authorization is the part of an authorization object (RFC 8555, section 7.1.4) that says why it is invalid.
type authorization struct {
	Status     string `json:"status"`
	Identifier struct {
		Value string `json:"value"`
	} `json:"identifier"`
	Challenges []struct {
		Type  string   `json:"type"`
		Error *problem `json:"error"`
	} `json:"challenges"`
}

// problem is a problem document of the authority (RFC 8555, section 6.7).
type problem struct {
	Type   string `json:"type"`
	Detail string `json:"detail"`
	Status int    `json:"-"` // of the answer; 0 = the problem of a challenge
}

// kind returns the last part of the type, such as "rateLimited".
func (p *problem) kind() string { return p.Type[strings.LastIndexByte(p.Type, ':')+1:] }

func (p *problem) Error() string {
	switch {
	case p.Detail == "" && p.Type == "":
		return fmt.Sprintf("the authority answered with status %d", p.Status)
	case p.Status == 0:
		return fmt.Sprintf("%s (%s)", p.Detail, p.kind())
	}
	return fmt.Sprintf("%s (%s, status %d)", p.Detail, p.kind(), p.Status)
}
