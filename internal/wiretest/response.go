package wiretest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// Response is a response that was read to its end, or to where it was cut.
type Response struct {
	Status int
	Header http.Header
	Body   string
	Err    error // of reading the body; nil if its framing is complete

	CloseDelimited bool // only the end of the connection has ended the body
}

// APIError is the error object in the body of an OpenAI-shaped error.
type APIError struct {
	Message      string `json:"message"`
	Type         string `json:"type"`
	Param        string `json:"param"`
	Code         string `json:"code"`
	Number       int    `json:"number"`
	Reason       string `json:"reason"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	RequestID    string `json:"request_id"`
}

// APIError decodes the error object, and fails the test if the body has none.
func (r Response) APIError(t testing.TB) APIError {
	t.Helper()
	var body struct {
		Error APIError `json:"error"`
	}
	if err := json.Unmarshal([]byte(r.Body), &body); err != nil {
		t.Errorf("response %d has no error object: %v: %.300q", r.Status, err, r.Body)
	}
	return body.Error
}

// Complete reports whether the body has its API's proper end.
func (r Response) Complete() bool {
	if strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		return strings.HasSuffix(r.Body, "data: [DONE]\n\n") && !strings.Contains(r.Body, `"error"`)
	}
	return json.Valid([]byte(r.Body))
}
