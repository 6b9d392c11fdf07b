package openai

import "bytes"

// AppendBody appends the body of the error in the shape that clients of a dialect expect. The fields of [Error.AppendJSON] which that shape
// lacks follow its own; SDKs ignore them.
//
//	Anthropic: {"type":"error","error":{"type","message",…},"request_id"}
//	Ollama:    {"error":"message",…}
//	TGI, TEI:  {"error":"message","error_type",…}
func (e *Error) AppendBody(dst []byte, d Dialect, requestID string) []byte {
	switch d {
	case DialectAnthropic:
		dst = append(dst, `{"type":"error","error":{"type":`...)
		dst = appendString(dst, e.anthropicType())
		dst = append(dst, `,"message":`...)
		dst = appendString(dst, e.Message)
		dst = append(e.appendFields(dst, requestID), `},"request_id":`...)
		return append(appendStringOrNull(dst, requestID), '}')
	case DialectOllama:
		dst = append(dst, `{"error":`...)
		dst = appendString(dst, e.Message)
		return append(e.appendFields(dst, requestID), '}')
	case DialectTGI, DialectTEI:
		dst = append(dst, `{"error":`...)
		dst = appendString(dst, e.Message)
		dst = append(dst, `,"error_type":`...)
		dst = appendString(dst, e.nativeErrorType(d))
		return append(e.appendFields(dst, requestID), '}')
	}
	return e.AppendJSON(dst, requestID)
}

// anthropicType returns Anthropic's type of the error (https://docs.anthropic.com/en/api/errors). Every 429 but that of a budget is a
// rate_limit_error, also without capacity: clients that look at the type take an overloaded_error for a 529.
func (e *Error) anthropicType() string {
	if e.Number == NumberInsufficientQuota {
		return "billing_error"
	}
	switch e.Status {
	case 401:
		return "authentication_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 503:
		return "overloaded_error"
	case 408, 504:
		return "timeout_error"
	}
	if e.Status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// nativeErrorType returns the error_type of TGI (router/src/infer/mod.rs, InferError) or TEI (router/src/lib.rs, ErrorType), which their clients know;
// or the code, for what they have no type for.
func (e *Error) nativeErrorType(d Dialect) string {
	tgi, tei := e.Code, e.Code
	switch {
	case e.Number == NumberInsufficientQuota:
	case e.Status == 400 || e.Status == 413 || e.Status == 422:
		tgi, tei = "validation", "Validation"
	case e.Status == 429 || e.Status == 503:
		tgi, tei = "overloaded", "Overloaded"
	case e.Status >= 500:
		tgi, tei = "generation", "Backend"
	}
	if d == DialectTEI {
		return tei
	}
	return tgi
}

// DialectOf returns the dialect in which a client expects the answer to a request: that of its path, also of one that is not served. Anthropic's
// SDKs ask for models at a path that OpenAI's have too; they send a header anthropic-version.
func DialectOf(target []byte, hasAnthropicVersion bool) Dialect {
	_, path, _, ok := SplitTarget(target)
	if !ok {
		return DialectOpenAI
	}
	path, _, _ = bytes.Cut(path, []byte("?"))
	if row := rowsByPath[string(path)]; row != nil && row.api != ListModels {
		return row.dialect
	}
	if hasAnthropicVersion && (string(path) == "/v1/models" || bytes.HasPrefix(path, []byte(modelsPrefix))) {
		return DialectAnthropic
	}
	return dialectOf(path)
}
