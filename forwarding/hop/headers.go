package hop

// Headers between nodes, and between clients and entries.
const (
	HeaderToken    = "x-colonnade-hop"
	HeaderVerdict  = "x-colonnade-verdict"
	HeaderLoad     = "x-colonnade-load"
	HeaderProgress = "x-colonnade-progress"
	// HeaderEnd has the value EndUnknown if the engine's connection has delimited the response, and its content does not show its end.
	// Then the end of the hop's framing does not mean that the response is whole.
	HeaderEnd = "x-colonnade-end"
	// HeaderVisits has what servers answered that did not serve a request, if a colo server has sent it on: see [Visit].
	HeaderVisits = "x-colonnade-visits"
	// HeaderServedBy has the [NodeName] of the colo server whose engine has answered.
	HeaderServedBy = "x-colonnade-served-by"
	HeaderBoot     = "x-colonnade-boot" // of a colo server that refuses a token with ErrSignAgain: its boot id

	// HeaderRetries is how many attempts at engines the server of a colo has made after its first, before the response of an engine; absent
	// = none. Such attempts of a request that was not served are in its verdict.
	HeaderRetries = "x-colonnade-retries"

	// HeaderTook is for how long the server of a colo has had a request, from its head until that of the response, in microseconds.
	HeaderTook = "x-colonnade-took-us"

	HeaderRequestID   = "x-request-id"
	HeaderAnthropicID = "request-id" // the same, where Anthropic's SDKs read it
	HeaderColo        = "x-colonnade-colo"
	HeaderColoPath    = "x-colonnade-colo-path" // colos that were asked, in order, if there are several
	HeaderModel       = "x-colonnade-model"     // of a request without a model in its body; of an answer, if other models could have served
	HeaderQueuedMS    = "x-colonnade-queued-ms"
	HeaderAttempts    = "x-colonnade-attempts"
	// HeaderEndpointReason names the endpoint that has served a request, with the policy and the reason of its choice. An entry asks for it with the
	// value 1, for accounts of operators.
	HeaderEndpointReason = "x-colonnade-endpoint-reason"
	// HeaderInternal asks, with the value 1, to keep the request from external endpoints: its account does not permit that its prompt leaves the
	// fleet, and it has asked for another model.
	HeaderInternal     = "x-colonnade-internal"
	HeaderCaptured     = "x-colonnade-captured" // until when the requests of the account are captured
	HeaderReason       = "x-colonnade-reason"
	HeaderRetryAfter   = "retry-after"
	HeaderRetryAfterMS = "retry-after-ms"
	HeaderShouldRetry  = "x-should-retry"

	HeaderLimitRequests     = "x-ratelimit-limit-requests"
	HeaderRemainingRequests = "x-ratelimit-remaining-requests"
	HeaderResetRequests     = "x-ratelimit-reset-requests"
	HeaderLimitTokens       = "x-ratelimit-limit-tokens"
	HeaderRemainingTokens   = "x-ratelimit-remaining-tokens"
	HeaderResetTokens       = "x-ratelimit-reset-tokens"

	HeaderQueue                = "x-colonnade-queue"
	HeaderQueueEvents          = "x-colonnade-queue-events"
	HeaderPriority             = "x-colonnade-priority"
	HeaderFallback             = "x-colonnade-fallback"
	HeaderDeadlineMS           = "x-colonnade-deadline-ms"
	HeaderForceColo            = "x-colonnade-force-colo"
	HeaderStainlessTimeout     = "x-stainless-timeout"
	HeaderStainlessReadTimeout = "x-stainless-read-timeout"
	HeaderSessionAffinity      = "x-session-affinity"
	HeaderTraceParent          = "traceparent"
	HeaderTraceState           = "tracestate"
)

// EndUnknown is the only value of [HeaderEnd].
const EndUnknown = "unknown"
