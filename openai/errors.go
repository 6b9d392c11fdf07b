package openai

import (
	"fmt"
	"strings"
	"time"

	"colonnade/reasons"
)

// maxQuoted bounds the client's text that a message repeats, in bytes.
const maxQuoted = 128

// Error is an error that a client gets: a row of the error table, and the particulars of one request.
type Error struct {
	Row
	Message    string        // never holds bytes of a prompt or a key
	Param      string        // the field at fault, or empty
	Reason     string        // of package reasons, or empty
	RetryAfter time.Duration // 0 for none
	Allow      string        // the methods for a 405, or empty
	NoRetry    bool          // a retry cannot help, or would generate again
}

// Error makes Error an error for logs: its number and message.
func (e *Error) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Number, e.Code, e.Message)
}

// InvalidRequest returns the error for a malformed request; param names the field at fault or is empty.
func InvalidRequest(param, format string, args ...any) *Error {
	return &Error{Row: row(NumberInvalidRequest), Message: fmt.Sprintf(format, args...), Param: param}
}

// ModelNotFound returns the error for a model that the fleet does not have, or not for this account.
func ModelNotFound(model string) *Error {
	return &Error{Row: row(NumberModelNotFound), Message: fmt.Sprintf("the model %q does not exist", Cut(model)), Param: "model"}
}

// UnknownURL returns the error for a path that is not served; target may have a query, which is not repeated.
func UnknownURL(target string) *Error {
	path, why := pathOnly(target), "the base URL must end in /v1"
	switch {
	case path == "/v1":
		why = "it is the base URL; requests go to paths below it, such as /v1/models"
	case strings.HasPrefix(path, "/v1/"):
		why = "this server has no such path"
	}
	return &Error{Row: row(NumberUnknownURL), Message: fmt.Sprintf("unknown URL %q: %s", Cut(path), why)}
}

// PathNotOfType returns the error for a path that models of the model's type do not serve.
func PathNotOfType(model, modelType, path string) *Error {
	return &Error{Row: row(NumberPathNotServed), Param: "model", Message: fmt.Sprintf("the model %q is of type %s, which does not serve %s: it serves %s",
		Cut(model), modelType, path, pathsOf(modelType, path, 0))}
}

// PathNotServed returns the error for a path that no engine of the model has. engines are the kinds of its engines; none if they are not known.
func PathNotServed(model, modelType, path string, engines Engines) *Error {
	message := fmt.Sprintf("the engines of the model %q do not have %s", Cut(model), path)
	switch others := pathsOf(modelType, path, engines); {
	case others == "":
	case engines == 0:
		message += fmt.Sprintf("; a model of type %s may serve %s", modelType, others)
	default:
		message += "; they may have " + others
	}
	return &Error{Row: row(NumberPathNotServed), Param: "model", Message: message, Reason: reasons.PathNotServed}
}

// UnsupportedParameter returns the error for a field that asks for state that is not kept here.
func UnsupportedParameter(param string) *Error {
	return &Error{Row: row(NumberUnsupportedParameter), Message: fmt.Sprintf("%q is not supported: nothing is stored between requests; leave it out", param), Param: param}
}

// EngineFieldNotAllowed returns the error for a body with an [EngineField] that the model's document does not allow.
func EngineFieldNotAllowed(field, model string) *Error {
	e := &Error{Row: row(NumberUnsupportedParameter), Param: field}
	if field == FileURLs {
		e.Param = ""
		e.Message = fmt.Sprintf("a URL in the request is one of a file, or a path, which the engine would read on its own machine: send the content as a data: URL, or let the operator list %q under allow_fields of the model %q", field, Cut(model))
		return e
	}
	e.Message = fmt.Sprintf("the field %q is not supported: it chooses something on the engine's side; leave it out, or let the operator list it under allow_fields of the model %q", field, Cut(model))
	return e
}

// NotTranslated returns the error for a field of a request that would have to be translated for the engine, and cannot be: param is its place,
// such as "messages.0.content.1.source".
func NotTranslated(param, why string) *Error {
	return &Error{Row: row(NumberUnsupportedParameter), Param: param,
		Message: fmt.Sprintf("%s: %s; the model's engine has no Messages API, so requests are translated to chat", param, why)}
}

// InvalidAPIKey returns the error for a request without a known key; why describes the problem and must not contain the key.
func InvalidAPIKey(why string) *Error {
	return &Error{Row: row(NumberInvalidAPIKey), Message: why}
}

// NoModelAllowed returns the error for a request of an account that may use no model at all.
func NoModelAllowed() *Error {
	return &Error{Row: row(NumberModelNotAllowed), Message: "this account may use no model (its models are [])"}
}

// NotANode returns the error for a client of a peer listener that is not a node of the fleet.
func NotANode() *Error {
	return &Error{Row: row(NumberNotANode), Message: "this listener serves other nodes of the fleet only; send requests to an entry"}
}

// OriginNotAllowed returns the error for a request that a browser sends for a page whose origin is not listed; origin is empty if the
// browser did not name it.
func OriginNotAllowed(origin string) *Error {
	page, remedy := "pages of other origins", `list the origin under origins in the document "defaults"`
	switch origin {
	case "":
	case "null": // of a file, or of a frame in a sandbox: every site can have such pages, so it cannot be listed
		page, remedy = "pages without an origin of their own (null)", "serve the page over HTTP, and "+remedy
	default:
		page = fmt.Sprintf("pages of the origin %q", Cut(origin))
	}
	return &Error{Row: row(NumberOriginNotAllowed), Message: page + " may not use this entry: " + remedy}
}

// MethodNotAllowed returns the error for a served path with a method that is not in allow.
func MethodNotAllowed(method, allow string) *Error {
	return &Error{Row: row(NumberMethodNotAllowed), Message: fmt.Sprintf("the method %q is not allowed here: use %s", Cut(method), allow), Allow: allow}
}

// RequestTimeout returns the error for a request that was not received in time; limit names the time limit.
func RequestTimeout(limit string) *Error {
	return &Error{Row: row(NumberRequestTimeout), Message: "the request was not received in time: " + limit}
}

// RequestTooLarge returns the error for a body over limit bytes.
func RequestTooLarge(limit int64) *Error {
	return &Error{Row: row(NumberRequestTooLarge), Message: fmt.Sprintf("the request body is larger than %d bytes", limit)}
}

// HeadersTooLarge returns the error for a request head over limit bytes.
func HeadersTooLarge(limit int) *Error {
	return &Error{Row: row(NumberHeadersTooLarge), Message: fmt.Sprintf("the request headers are larger than %d bytes", limit)}
}

// TooManyHeaders returns the error for a request head of more than limit lines.
func TooManyHeaders(limit int) *Error {
	e := HeadersTooLarge(0)
	e.Message = fmt.Sprintf("the request has more than %d headers", limit)
	return e
}

// RateLimited returns the error for a request over the account's own limits.
func RateLimited(reason string, retryAfter time.Duration) *Error {
	return &Error{Row: row(NumberRateLimited), Message: "the limits of this account are reached, please slow down", Reason: reason, RetryAfter: retryAfter}
}

// LimitReached returns the error for a request beyond a limit of requests or tokens a minute; why names the limit.
func LimitReached(reason, why string, retryAfter time.Duration) *Error {
	e := RateLimited(reason, retryAfter)
	e.Message = why
	return e
}

// BudgetSpent returns the error for a request of which the budget is spent; why names the budget. It forbids the client's own retry, since
// the next period begins in hours or days.
func BudgetSpent(why string, retryAfter time.Duration) *Error {
	return &Error{Row: row(NumberInsufficientQuota), Message: why, Reason: reasons.BudgetSpent, RetryAfter: retryAfter, NoRetry: true}
}

// NothingMayRun returns the error for a request of an account that may run no requests. It forbids the client's own retry,
// since only a change of the account can help.
func NothingMayRun() *Error {
	e := RateLimited(reasons.RateLimited, 0)
	e.Message, e.NoRetry = "this account may have no request running (limits.concurrent is 0)", true
	return e
}

// TooManyConnections returns the error for a connection beyond the limit for one address.
func TooManyConnections(limit int) *Error {
	e := RateLimited(reasons.TooManyConnections, time.Second)
	e.Message = fmt.Sprintf("this address has %d connections open, and may have no more: close some, or send more requests over each", limit)
	return e
}

// TooManyClients returns the error for a connection beyond the node's limit for all addresses together.
func TooManyClients() *Error { return Unavailable(reasons.TooManyConnections, time.Second) }

// OutOfCapacity returns the error for a request without a slot, and without room or time to wait; reason says which.
func OutOfCapacity(reason string, retryAfter time.Duration) *Error {
	return &Error{Row: row(NumberOutOfCapacity), Message: strings.TrimSpace("Capacity temporarily exceeded, please try again. " + reasons.Sentence(reason)), Reason: reason, RetryAfter: retryAfter}
}

// Internal returns the error for a fault of the gateway itself.
func Internal() *Error {
	return &Error{Row: row(NumberInternal), Message: "internal error"}
}

// EngineFailed returns the error for an engine that failed when no retry was left. It forbids the client's own retry, which
// would generate again, unless the engine could not be reached; clear NoRetry if nothing was dispatched for another reason.
func EngineFailed(reason string) *Error {
	return &Error{Row: row(NumberEngineFailed), Message: "the inference engine failed", Reason: reason,
		NoRetry: reason != reasons.ConnectFailed}
}

// EngineMisconfigured returns the [EngineFailed] for an engine that refuses the gateway, and not the request: status is what it answered.
// Nothing in the message is the engine's own.
func EngineMisconfigured(reason string, status int) *Error {
	e := EngineFailed(reason)
	if mistake := mistakeOf(status); mistake != "" {
		e.Message += ": " + mistake
	}
	return e
}

// mistakeOf describes the mistake in a fleet's documents that an engine's status is a sign of; "" if there is none.
func mistakeOf(status int) string {
	switch {
	case status == 401:
		return "it does not accept the credential that the gateway has for it (401)"
	case status == 403:
		return "it does not permit the gateway's credential to do this (403)"
	case status == 404:
		return "it does not have something that the gateway asked for, such as the path (404)"
	case status == 405:
		return "it does not accept the method at this path (405)"
	case status >= 400 && status < 500:
		return fmt.Sprintf("it refused the gateway's request (%d)", status)
	case status >= 200 && status < 300:
		return "its answer was not in the form of the API"
	}
	return ""
}

// Unavailable returns the error for a model without a live endpoint or server, or a node that drains.
func Unavailable(reason string, retryAfter time.Duration) *Error {
	message := "the service is temporarily unavailable, please try again"
	if sentence := reasons.Sentence(reason); sentence != "" {
		message += ". " + sentence
	}
	return &Error{Row: row(NumberUnavailable), Message: message, Reason: reason, RetryAfter: retryAfter}
}

// NoBodyMemory returns the error for a request whose body finds no memory, or has lost it to another; why says which.
func NoBodyMemory(why string, retryAfter time.Duration) *Error {
	e := Unavailable(reasons.BodyMemory, retryAfter)
	e.Message = why
	return e
}

// InferenceTimeout returns the error for an engine that did not answer in time. It forbids the client's own retry, as
// [EngineFailed] does.
func InferenceTimeout(reason string) *Error {
	return &Error{Row: row(NumberInferenceTimeout), Message: "the inference engine did not answer in time", Reason: reason, NoRetry: true}
}

// OverDeadline returns the [InferenceTimeout] that is not the engine's fault: the client set a shorter limit for its first
// byte.
func OverDeadline() *Error {
	e := InferenceTimeout(reasons.FirstByteTimeout)
	e.Message = "no first byte came within the client's own deadline"
	return e
}

// TooMuchOutput returns the error for a request that asks for longer answers than its account or key may have.
func TooMuchOutput(param string, limit int) *Error {
	return InvalidRequest(param, "%q must be a whole number of at most %d: an answer to this account or API key has at most so many tokens (limits.output_tokens)", param, limit)
}

// ContextLengthExceeded returns the error for a request that cannot fit into the context of its model: limit tokens, for a prompt of at least
// prompt tokens.
func ContextLengthExceeded(api API, model string, limit, prompt int) *Error {
	return &Error{Row: row(NumberContextLength), Param: promptField(api), NoRetry: true,
		Message: fmt.Sprintf("the maximum context length of the model %q is %d tokens, and the prompt has at least %d: send a shorter one", Cut(model), limit, prompt)}
}

// promptField returns the field that has the prompt in requests of an API.
func promptField(api API) string {
	switch api {
	case Completions:
		return "prompt"
	case Responses:
		return "input"
	}
	return "messages"
}

// PromptRefused returns the error for a prompt that the filter of a model does not accept; why says which part of the filter, and nothing of
// the prompt.
func PromptRefused(model, why string) *Error {
	return &Error{Row: row(NumberPromptRefused), NoRetry: true, Message: fmt.Sprintf("the model %q does not accept this prompt: %s", Cut(model), why)}
}
