package openai

// Numbers of errors: the HTTP status and two more digits.
const (
	NumberInvalidRequest       = 40001
	NumberModelNotFound        = 40002
	NumberUnknownURL           = 40003
	NumberUnsupportedParameter = 40004
	NumberPathNotServed        = 40005
	NumberContextLength        = 40006
	NumberPromptRefused        = 40007
	NumberInvalidAPIKey        = 40101
	NumberModelNotAllowed      = 40301
	NumberNotANode             = 40302
	NumberOriginNotAllowed     = 40303
	NumberMethodNotAllowed     = 40501
	NumberRequestTimeout       = 40801
	NumberRequestTooLarge      = 41301
	NumberHeadersTooLarge      = 43101
	NumberRateLimited          = 42901
	NumberOutOfCapacity        = 42902
	NumberInsufficientQuota    = 42903
	NumberInternal             = 50000
	NumberEngineFailed         = 50001
	NumberUnavailable          = 50301
	NumberInferenceTimeout     = 50401
)

const (
	typeInvalid    = "invalid_request_error"
	typeAuth       = "authentication_error"
	typePermission = "permission_error"
	typeRate       = "rate_limit_error"
	typeServer     = "server_error"
	typeQuota      = "insufficient_quota" // OpenAI's own class for a budget that is spent
)

// Row is a row of the error table: the part that all errors of one number share.
type Row struct {
	Number int    // five digits
	Status int    // HTTP status
	Code   string // machine-readable, one for each number
	Type   string // OpenAI's class of error
	When   string // for the documentation
}

// Errors lists the rows of the error table.
func Errors() []Row { return errorTable }

var errorTable = []Row{
	{NumberInvalidRequest, 400, "invalid_request", typeInvalid, "the request is malformed"},
	{NumberModelNotFound, 404, "model_not_found", typeInvalid, "the fleet does not have the model, or the account may not use it"},
	{NumberUnknownURL, 404, "unknown_url", typeInvalid, "the path is not served; the base URL must end in `/v1`"},
	{NumberUnsupportedParameter, 400, "unsupported_parameter", typeInvalid, "`previous_response_id`, `conversation` or `background`, since nothing is stored between requests; or an [engine field](#engine-fields) or a `file:` URL that the model does not allow; or a field that cannot be [translated](anthropic.md#fields-of-translated-requests)"},
	{NumberPathNotServed, 404, "path_not_supported", typeInvalid, "the model is of another type than the path, or its engines do not have the path; the message lists the paths that the model may serve"},
	{NumberContextLength, 400, "context_length_exceeded", typeInvalid, "the prompt cannot fit into the model's context (`max_model_len`)"},
	{NumberPromptRefused, 400, "prompt_refused", typeInvalid, "the model's [prompt filter](#prompt-filters) does not accept the prompt; the message says which entry, and does not repeat the text"},
	{NumberInvalidAPIKey, 401, "invalid_api_key", typeAuth, "the API key is missing, unknown, expired or revoked"},
	{NumberModelNotAllowed, 403, "model_not_allowed", typePermission, "the account may use no model: its `models` is `[]`"},
	{NumberNotANode, 403, "not_a_node", typePermission, "a colo's peer listener was asked by a client that is no node of the fleet"},
	{NumberOriginNotAllowed, 403, "origin_not_allowed", typePermission, "the page's origin is not listed in `defaults.origins`"},
	{NumberMethodNotAllowed, 405, "method_not_allowed", typeInvalid, "the path does not serve the method; see the header `allow`"},
	{NumberRequestTimeout, 408, "request_timeout", typeInvalid, "the request was not received in time"},
	{NumberRequestTooLarge, 413, "request_too_large", typeInvalid, "the body is larger than the model's `max_body`"},
	{NumberHeadersTooLarge, 431, "headers_too_large", typeInvalid, "the head is larger than 16 KiB or has more than 100 lines"},
	{NumberRateLimited, 429, "rate_limit_exceeded", typeRate, "the account, the API key or the fleet has used its requests or tokens a minute, the account may have no request running, or the address has too many connections; `reason` says which"},
	{NumberOutOfCapacity, 429, "out_of_capacity", typeRate, "no free slot, and no room or time to wait; `reason` says why"},
	{NumberInsufficientQuota, 429, "insufficient_quota", typeQuota, "the budget of the account, the API key or the fleet is spent for this day or month"},
	{NumberInternal, 500, "internal_error", typeServer, "a fault of Colonnade"},
	{NumberEngineFailed, 502, "engine_error", typeServer, "the engine failed and no retry was left"},
	{NumberUnavailable, 503, "unavailable", typeServer, "no live endpoint or server, or the node is draining"},
	{NumberInferenceTimeout, 504, "inference_timeout", typeServer, "the engine did not answer in time"},
}

// row returns the row of a number, which must be there.
func row(number int) Row {
	for _, r := range errorTable {
		if r.Number == number {
			return r
		}
	}
	panic("openai: no error has this number")
}
