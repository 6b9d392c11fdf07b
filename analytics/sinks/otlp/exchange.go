package otlp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"

	"colonnade/analytics/sinks"
)

// longestAnswer is how much of an answer is read.
const longestAnswer = 1 << 20

// exchange carries a request of the exporter, and keeps what the exporter does not say about the answer. One goroutine uses it.
type exchange struct {
	transport *http.Transport
	auth      *sinks.Auth
	answer    answer
}

// answer is what is known of the last answer.
type answer struct {
	status  int           // 0 = there was none
	after   time.Duration // not before that, the collector wants another request; 0 = it has not said
	partial bool          // the collector has something to say about records that it has or has not taken
	lost    int           // records that it has not taken, while it has taken all others
	message string        // why
}

// secretError says that the secret could not be read.
type secretError struct{ err error }

func (e secretError) Error() string { return e.err.Error() }

func (x *exchange) begin() { x.answer = answer{} }

// RoundTrip implements http.RoundTripper.
func (x *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if err := x.auth.Authorize(r); err != nil {
		return nil, secretError{err}
	}
	response, err := x.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	x.answer.status, x.answer.after = response.StatusCode, retryAfter(response.Header.Get("Retry-After"))
	body, err := io.ReadAll(io.LimitReader(response.Body, longestAnswer))
	response.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("cannot read the answer: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	var export collector.ExportLogsServiceResponse
	if response.StatusCode/100 == 2 && proto.Unmarshal(body, &export) == nil && export.GetPartialSuccess() != nil {
		x.answer.partial, x.answer.lost = true, int(export.GetPartialSuccess().GetRejectedLogRecords())
		x.answer.message = export.GetPartialSuccess().GetErrorMessage()
	}
	return response, nil
}

// retryAfter returns the time that a header asks for, or 0.
func retryAfter(header string) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil && seconds > 0 {
		return time.Duration(min(seconds, 24*3600)) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
