package openai

import (
	"fmt"
	"strings"
	"time"
)

// maxQuoted bounds what of a client's own words is repeated in a message.
const maxQuoted = 128

// Error is a row of the error table, filled in: what a client is told.
type Error struct {
	Number     int           // five digits that tell the row, see the constructors
	Status     int           // HTTP status
	Code       string        // machine-readable, one per number
	Type       string        // OpenAI's class of error
	Message    string        // never holds bytes of a prompt or a key
	Param      string        // the field at fault, "" for none
	Reason     string        // why there was no capacity, "" for none
	RetryAfter time.Duration // 0 for none
	Allow      string        // the methods for a 405, "" otherwise
	NoRetry    bool          // a retry cannot help, or would generate again
}

// Error makes Error an error for logs: its number and message.
func (e *Error) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Number, e.Code, e.Message)
}

const (
	typeInvalid    = "invalid_request_error"
	typeAuth       = "authentication_error"
	typePermission = "permission_error"
	typeRate       = "rate_limit_error"
	typeServer     = "server_error"
)

// InvalidRequest is a request that is malformed; param names the field at fault
// or is empty.
func InvalidRequest(param, format string, args ...any) *Error {
	return &Error{Number: 40001, Status: 400, Code: "invalid_request", Type: typeInvalid,
		Message: fmt.Sprintf(format, args...), Param: param}
}

// ModelNotFound is a request for a model that the fleet does not have.
func ModelNotFound(model string) *Error {
	return &Error{Number: 40002, Status: 404, Code: "model_not_found", Type: typeInvalid,
		Message: fmt.Sprintf("the model %q does not exist", Cut(model)), Param: "model"}
}

// UnknownURL is a path that is not served; target may carry a query, which is
// not repeated.
func UnknownURL(target string) *Error {
	path, why := pathOnly(target), "the base URL must end in /v1"
	if strings.HasPrefix(path, "/v1/") {
		why = "this server has no such path"
	}
	return &Error{Number: 40003, Status: 404, Code: "unknown_url", Type: typeInvalid,
		Message: fmt.Sprintf("unknown URL %q: %s", Cut(path), why)}
}

// UnsupportedParameter is a field that asks for state that is not kept here.
func UnsupportedParameter(param string) *Error {
	return &Error{Number: 40004, Status: 400, Code: "unsupported_parameter", Type: typeInvalid,
		Message: fmt.Sprintf("%q is not supported: nothing is stored between requests; leave it out", param), Param: param}
}

// InvalidAPIKey is a request without a key that is known; why says what is wrong
// with it and must not contain it.
func InvalidAPIKey(why string) *Error {
	return &Error{Number: 40101, Status: 401, Code: "invalid_api_key", Type: typeAuth, Message: why}
}

// ModelNotAllowed is a model that exists but not for this account.
func ModelNotAllowed(model string) *Error {
	return &Error{Number: 40301, Status: 403, Code: "model_not_allowed", Type: typePermission,
		Message: fmt.Sprintf("this account may not use the model %q", Cut(model)), Param: "model"}
}

// OriginNotAllowed is a browser whose page comes from an origin that may not open
// WebSockets.
func OriginNotAllowed(origin string) *Error {
	return &Error{Number: 40303, Status: 403, Code: "origin_not_allowed", Type: typePermission,
		Message: fmt.Sprintf("pages of the origin %q may not connect: list it under origins in the document \"defaults\"", Cut(origin))}
}

// MethodNotAllowed is a path that is served, but for the methods in allow only.
func MethodNotAllowed(method, allow string) *Error {
	return &Error{Number: 40501, Status: 405, Code: "method_not_allowed", Type: typeInvalid,
		Message: fmt.Sprintf("the method %q is not allowed here: use %s", Cut(method), allow), Allow: allow}
}

// RequestTimeout is a request that was not sent to its end in time; limit says what
// was too slow.
func RequestTimeout(limit string) *Error {
	return &Error{Number: 40801, Status: 408, Code: "request_timeout", Type: typeInvalid,
		Message: "the request was not received in time: " + limit}
}

// RequestTooLarge is a body over limit bytes.
func RequestTooLarge(limit int64) *Error {
	return &Error{Number: 41301, Status: 413, Code: "request_too_large", Type: typeInvalid,
		Message: fmt.Sprintf("the request body is larger than %d bytes", limit)}
}

// HeadersTooLarge is a request head over limit bytes.
func HeadersTooLarge(limit int) *Error {
	return &Error{Number: 43101, Status: 431, Code: "headers_too_large", Type: typeInvalid,
		Message: fmt.Sprintf("the request headers are larger than %d bytes", limit)}
}

// TooManyHeaders is a request head of more than limit lines.
func TooManyHeaders(limit int) *Error {
	e := HeadersTooLarge(0)
	e.Message = fmt.Sprintf("the request has more than %d headers", limit)
	return e
}

// RateLimited is a request over the account's own limits.
func RateLimited(reason string, retryAfter time.Duration) *Error {
	return &Error{Number: 42901, Status: 429, Code: "rate_limit_exceeded", Type: typeRate,
		Message: "the limits of this account are reached, please slow down", Reason: reason, RetryAfter: retryAfter}
}

// NothingMayRun is a request of an account that may have none running. It forbids the client's own retry, since only
// who changes the account can help.
func NothingMayRun() *Error {
	e := RateLimited("rate_limited", 0)
	e.Message, e.NoRetry = "this account may have no request running (limits.concurrent is 0)", true
	return e
}

// TooManyConnections is a connection beyond the limit for one address.
func TooManyConnections(limit int) *Error {
	e := RateLimited("connections", time.Second)
	e.Message = fmt.Sprintf("this address has %d connections open, and may have no more: close some, or send more requests over each", limit)
	return e
}

// TooManyClients is a connection beyond what a node takes in all.
func TooManyClients() *Error { return Unavailable("connections", time.Second) }

// OutOfCapacity is a request for which there is no slot and no room or time to
// wait; reason says which.
func OutOfCapacity(reason string, retryAfter time.Duration) *Error {
	return &Error{Number: 42902, Status: 429, Code: "out_of_capacity", Type: typeRate,
		Message: "Capacity temporarily exceeded, please try again." + whyFull(reason), Reason: reason, RetryAfter: retryAfter}
}

// whyFull is a sentence on a reason, after a space; empty for one that says
// nothing to a client.
func whyFull(reason string) string {
	switch reason {
	case "account_limit":
		return " This account has as many requests running here as it may: its limits.concurrent, or the pool's permits.max_share."
	case "account_queue_full":
		return " This account has as many requests waiting as it may."
	case "queue_full":
		return " The queue has no room."
	case "queue_timeout":
		return " No slot would come free, or came free, within the time that the queue allows."
	case "deadline":
		return " It could not begin before the client's own deadline."
	case "busy":
		return " There was no free slot, and the request did not wait."
	}
	return ""
}

// Internal is a fault of ours.
func Internal() *Error {
	return &Error{Number: 50000, Status: 500, Code: "internal_error", Type: typeServer,
		Message: "internal error"}
}

// EngineFailed is an engine that failed when no retry was left. It forbids the
// client's own retry, which would generate again; clear NoRetry if nothing was
// dispatched.
func EngineFailed(reason string) *Error {
	return &Error{Number: 50001, Status: 502, Code: "engine_error", Type: typeServer,
		Message: "the inference engine failed", Reason: reason, NoRetry: true}
}

// Unavailable is a model for which no endpoint or server lives, or a node that
// drains.
func Unavailable(reason string, retryAfter time.Duration) *Error {
	return &Error{Number: 50301, Status: 503, Code: "unavailable", Type: typeServer,
		Message: "the service is temporarily unavailable, please try again", Reason: reason, RetryAfter: retryAfter}
}

// InferenceTimeout is an engine that did not answer in time. It forbids the
// client's own retry like [EngineFailed].
func InferenceTimeout(reason string) *Error {
	return &Error{Number: 50401, Status: 504, Code: "inference_timeout", Type: typeServer,
		Message: "the inference engine did not answer in time", Reason: reason, NoRetry: true}
}

// OverDeadline is an [InferenceTimeout] for which the engine is not to blame:
// the client did not want to wait longer for its first byte.
func OverDeadline() *Error {
	e := InferenceTimeout("first_byte")
	e.Message = "no first byte came within the client's own deadline"
	return e
}
