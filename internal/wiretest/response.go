package wiretest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// Response is a whole answer.
type Response struct {
	Status int
	Header http.Header
	Body   string
	Err    error // of reading the body: it was cut
}

// errorOf is the error object of an answer of ours.
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

func (a Response) APIError(t testing.TB) APIError {
	t.Helper()
	var body struct {
		Error APIError `json:"error"`
	}
	if err := json.Unmarshal([]byte(a.Body), &body); err != nil {
		t.Errorf("answer %d is no error of ours: %v: %.300q", a.Status, err, a.Body)
	}
	return body.Error
}

// Complete says whether an answer has its API's proper end.
func (a Response) Complete() bool {
	if strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream") {
		return strings.HasSuffix(a.Body, "data: [DONE]\n\n") && !strings.Contains(a.Body, `"error"`)
	}
	return json.Valid([]byte(a.Body))
}

// RawResponse is an answer as it stood on the wire. Its Err is how it was cut, nil if its framing is complete.
type RawResponse struct {
	Response
	chunks []string // of a chunked answer
}
