package light

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
)

const (
	// answerTimeout is how long a receiver may take for a batch.
	answerTimeout = 30 * time.Second
	mostAnswer    = 64 << 10 // bytes of an answer that are read, so that its connection can be used again
	mostReason    = 200      // bytes of an answer that an error has
)

// receiver posts events as lines of JSON to a URL.
type receiver struct {
	ship.Receiver

	url        string
	address    string // without its path, for errors
	auth       *sinks.Auth
	compressor *compressor
	client     *http.Client
}

func newReceiver(s *sinks.Spec, e sinks.Environment) (*receiver, error) {
	r := &receiver{}
	u := *s.URL
	u.RawQuery = s.Param("query", "")
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return nil, errors.New("query: must be the query of the URL, escaped once more, such as a%3D1%26b%3D2") // it may have a key
	}
	r.url, r.address = u.String(), u.Scheme+"://"+u.Host
	var err error
	if r.auth, err = sinks.NewAuth(s, e); err != nil {
		return nil, err
	}
	if r.compressor, err = newCompressor(s.Compression); err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forbidigo // each batch has a deadline
	r.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return r, nil
}

// Check implements [ship.Sink]. Without an event, there is nothing to ask the receiver.
func (r *receiver) Check(context.Context) error { return r.auth.Check() }

// Send implements [ship.Sink].
func (r *receiver) Send(ctx context.Context, b *ship.Batch) error {
	text, err := r.compressor.compress(b)
	if err != nil {
		return err
	}
	body := &body{text: text, pause: b.Pause}
	defer body.wait() // an early answer does not end the reading, and the memory is that of the next batch
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	request.Header.Set("User-Agent", "colonnade")
	request.Header.Set("Idempotency-Key", `"`+b.ID()+`"`)
	if r.compressor.encoding != "" {
		request.Header.Set("Content-Encoding", r.compressor.encoding)
	}
	if err := r.auth.Authorize(request); err != nil {
		return err
	}
	request.ContentLength, request.GetBody = int64(len(text)), body.reader
	request.Body, _ = body.reader()
	answer, err := r.client.Do(request)
	if err != nil {
		return r.explain(err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	return verdict(answer, said)
}

// explain leaves the path and the query of the URL out of an error: they may have a key of the receiver.
func (r *receiver) explain(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return fmt.Errorf("cannot post to %s: %w", r.address, of.Err)
	}
	return err
}

// verdict returns what an answer says about the batch.
func verdict(answer *http.Response, text []byte) error {
	if answer.StatusCode/100 == 2 {
		return nil
	}
	err := fmt.Errorf("the receiver answered %d%s", answer.StatusCode, reason(text))
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return ship.Rejected(err)
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w; check the setting credential", err)
	}
	if answer.StatusCode/100 == 3 {
		return fmt.Errorf("%w: it is elsewhere; give the sink the URL to which it redirects", err)
	}
	if after, ok := retryAfter(answer.Header.Get("Retry-After"), time.Now()); ok {
		return ship.RetryAfter(err, after)
	}
	return err
}

// reason returns the begin of an answer's text, for an error.
func reason(text []byte) string {
	text = bytes.TrimSpace(text[:min(len(text), mostReason)])
	if len(text) == 0 {
		return ""
	}
	return fmt.Sprintf(": %q", strings.ToValidUTF8(string(text), ""))
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now)), true
	}
	return 0, false
}

// Close implements [ship.Sink].
func (r *receiver) Close() error {
	r.client.CloseIdleConnections()
	return nil
}
