package openai_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"colonnade/openai"
)

// wire is an error as a client decodes it.
type wire struct {
	Error struct {
		Message      string  `json:"message"`
		Type         string  `json:"type"`
		Param        *string `json:"param"`
		Code         string  `json:"code"`
		Number       int     `json:"number"`
		Reason       *string `json:"reason"`
		RetryAfterMS *int64  `json:"retry_after_ms"`
		RequestID    *string `json:"request_id"`
	} `json:"error"`
}

func decodeError(t *testing.T, body []byte) wire {
	t.Helper()
	var w wire
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil || d.More() {
		t.Fatalf("%q: %v", body, err)
	}
	return w
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestErrors(t *testing.T) {
	f := func(e *openai.Error, number, status int, code, class string) {
		t.Helper()
		if e.Number != number || e.Status != status || e.Code != code || e.Type != class {
			t.Errorf("%+v", e)
		}
		w := decodeError(t, e.AppendJSON(nil, "req")).Error
		if w.Message != e.Message || w.Type != class || w.Code != code || w.Number != number ||
			text(w.Param) != e.Param || text(w.Reason) != e.Reason || text(w.RequestID) != "req" {
			t.Errorf("%+v became %+v", e, w)
		}
		if (w.Param == nil) != (e.Param == "") || (w.Reason == nil) != (e.Reason == "") || (w.RetryAfterMS == nil) != (e.RetryAfter == 0) {
			t.Errorf("%+v became %+v", e, w)
		}
		if w.RetryAfterMS != nil && *w.RetryAfterMS != e.RetryAfter.Milliseconds() {
			t.Errorf("retry after %d ms instead of %v", *w.RetryAfterMS, e.RetryAfter)
		}
		if !strings.Contains(e.Error(), e.Code) {
			t.Errorf("%q", e.Error())
		}
	}
	f(openai.InvalidRequest("x", "no %s", "good"), 40001, 400, "invalid_request", "invalid_request_error")
	f(openai.ModelNotFound("m"), 40002, 404, "model_not_found", "invalid_request_error")
	f(openai.UnknownURL("/x"), 40003, 404, "unknown_url", "invalid_request_error")
	f(openai.UnsupportedParameter("background"), 40004, 400, "unsupported_parameter", "invalid_request_error")
	f(openai.InvalidAPIKey("no key"), 40101, 401, "invalid_api_key", "authentication_error")
	f(openai.OriginNotAllowed("https://x"), 40303, 403, "origin_not_allowed", "permission_error")
	f(openai.MethodNotAllowed("PUT", "POST"), 40501, 405, "method_not_allowed", "invalid_request_error")
	f(openai.RequestTimeout("the head is late"), 40801, 408, "request_timeout", "invalid_request_error")
	f(openai.RequestTooLarge(5), 41301, 413, "request_too_large", "invalid_request_error")
	f(openai.HeadersTooLarge(5), 43101, 431, "headers_too_large", "invalid_request_error")
	f(openai.TooManyHeaders(5), 43101, 431, "headers_too_large", "invalid_request_error")
	f(openai.RateLimited("rate_limited", time.Second), 42901, 429, "rate_limit_exceeded", "rate_limit_error")
	f(openai.NothingMayRun(), 42901, 429, "rate_limit_exceeded", "rate_limit_error")
	f(openai.TooManyConnections(5), 42901, 429, "rate_limit_exceeded", "rate_limit_error")
	f(openai.TooManyClients(), 50301, 503, "unavailable", "server_error")
	f(openai.OutOfCapacity("queue_full", 1500*time.Millisecond), 42902, 429, "out_of_capacity", "rate_limit_error")
	f(openai.Internal(), 50000, 500, "internal_error", "server_error")
	f(openai.EngineFailed("cut"), 50001, 502, "engine_error", "server_error")
	f(openai.Unavailable("draining", time.Second), 50301, 503, "unavailable", "server_error")
	f(openai.InferenceTimeout("first_byte_timeout"), 50401, 504, "inference_timeout", "server_error")
	f(openai.OverDeadline(), 50401, 504, "inference_timeout", "server_error")
}

func TestErrorDetails(t *testing.T) {
	const full = "Capacity temporarily exceeded, please try again."
	said := map[string]string{}
	for _, reason := range []string{"account_limit", "account_queue_full", "queue_full", "queue_timeout", "deadline", "busy"} {
		e := openai.OutOfCapacity(reason, 0)
		why, ok := strings.CutPrefix(e.Message, full+" ")
		if !ok || !strings.HasSuffix(why, ".") || said[why] != "" || e.NoRetry {
			t.Errorf("%s: %+v, and %q says the same", reason, e, said[why])
		}
		said[why] = reason
	}
	if e := openai.OutOfCapacity("x", 0); e.Message != full {
		t.Errorf("%+v", e)
	}
	if e := openai.OverDeadline(); !e.NoRetry || strings.Contains(e.Message, "engine") {
		t.Errorf("%+v", e)
	}
	if !openai.EngineFailed("").NoRetry || !openai.InferenceTimeout("").NoRetry {
		t.Error("a retry would generate again")
	}
	if openai.EngineFailed("connect_failed").NoRetry {
		t.Error("an engine that could not be reached has generated nothing")
	}
	if e := openai.NothingMayRun(); !e.NoRetry || e.RetryAfter != 0 || e.Reason != "rate_limited" || !strings.Contains(e.Message, "limits.concurrent is 0") {
		t.Errorf("%+v", e)
	}
	if e := openai.MethodNotAllowed("PUT", "GET"); e.Allow != "GET" {
		t.Errorf("%+v", e)
	}
	if w := decodeError(t, openai.OutOfCapacity("x", time.Microsecond).AppendJSON(nil, "")).Error; *w.RetryAfterMS != 1 || w.RequestID != nil {
		t.Errorf("%+v", w)
	}
	if e := openai.UnknownURL("/v2?key=secret"); strings.Contains(e.Message, "secret") {
		t.Errorf("%q", e.Message)
	}
	for _, long := range []string{strings.Repeat("m", 1000), strings.Repeat("ü", 1000), strings.Repeat("\xff", 1000)} {
		for _, e := range []*openai.Error{openai.ModelNotFound(long), openai.UnknownURL(long), openai.MethodNotAllowed(long, "GET")} {
			if len(e.Message) > 700 || !utf8.ValidString(e.Message) {
				t.Errorf("%d bytes: %q", len(e.Message), e.Message)
			}
			decodeError(t, e.AppendJSON(nil, ""))
		}
	}
}

// The JSON of any error decodes to the error.
func FuzzErrorJSON(f *testing.F) {
	f.Add("a\"\\\x00\x1f\n\t\x7f\u2028</script>ü😀", "param", "reason", int64(5))
	f.Add("\xff\xc3", "", "", int64(-1))
	f.Fuzz(func(t *testing.T, message, param, reason string, after int64) {
		e := openai.InvalidRequest(param, "%s", message)
		e.Reason, e.RetryAfter = reason, time.Duration(after)
		w := decodeError(t, e.AppendJSON(nil, message)).Error
		valid := func(s string) string { return strings.ToValidUTF8(replaceEach(s), "\ufffd") }
		if w.Message != valid(message) || text(w.Param) != valid(param) || text(w.Reason) != valid(reason) || text(w.RequestID) != valid(message) {
			t.Errorf("%+v became %+v", e, w)
		}
	})
}

// replaceEach replaces each byte that is not UTF-8 by U+FFFD.
func replaceEach(s string) string { return string([]rune(s)) }
