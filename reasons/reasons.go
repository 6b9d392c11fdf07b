// Package reasons is the one list of machine-readable reasons: why a request was refused, failed or ended. They stand in the header
// x-colonnade-reason, in error bodies and verdicts, in events and in the labels of metrics.
package reasons

// Reasons of refusals: nothing was generated.
const (
	QueueFull          = "queue_full"
	AccountQueueFull   = "account_queue_full"
	AccountLimit       = "account_limit"
	QueueTimeout       = "queue_timeout"
	Deadline           = "deadline"
	Busy               = "busy"
	NoEndpoint         = "no_endpoint"
	NoRoute            = "no_route"
	ModelNotLoaded     = "model_not_loaded"
	NoServer           = "no_server"
	Draining           = "draining"
	Moved              = "moved"
	Starting           = "starting"
	RateLimited        = "rate_limited"
	RequestLimit       = "request_limit"
	TokenLimit         = "token_limit"
	BudgetSpent        = "budget_spent"
	TooManyConnections = "too_many_connections"
	BodyMemory         = "body_memory_exhausted"
	TableChanged       = "table_changed"
	RoutingLoop        = "routing_loop"
	HopLimit           = "hop_limit"
	UnknownModel       = "unknown_model"
	HopTokenReplayed   = "hop_token_replayed"
)

// Reasons of failures after a request was sent to an engine or a colo.
const (
	ConnectFailed         = "connect_failed"
	ColoUnreachable       = "colo_unreachable"
	NoAnswer              = "no_answer"
	EngineStatus          = "engine_status"
	EngineFull            = "engine_full"
	EndpointMisconfigured = "endpoint_misconfigured"
	PathNotServed         = "path_not_served"
	NotAStream            = "not_a_stream"
	FirstByteTimeout      = "first_byte_timeout"
	TotalTimeout          = "total_timeout"
	IdleTimeout           = "idle_timeout"
	Truncated             = "truncated"
	CloseDelimited        = "close_delimited"
	ErrorEvent            = "error_event"
	ClientGone            = "client_gone"
	GrantExpired          = "grant_expired"
	Panic                 = "panic"
)

// Reasons for which realtime sessions end.
const (
	SessionTimeout   = "session_timeout"
	MessageTooBig    = "message_too_big"
	TooManyFragments = "too_many_fragments"
	NotUTF8          = "not_utf8"
	ForeignModel     = "foreign_model"
	ProtocolError    = "protocol_error"
	Stalled          = "stalled"
	Silent           = "silent"
	Handshake        = "handshake"
)

// Info is what is known of a reason.
type Info struct {
	Reason  string
	Meaning string // for the table in the documentation
	// Sentence is added to the message of a client's error; empty for most.
	Sentence string
	// Where it is seen: in errors that clients get, or only in events and verdicts.
	Client bool
}

// All lists every reason. The order is that of the documentation.
func All() []Info { return all }

// Sentence returns the sentence on a reason in the message of a client's error, or nothing.
func Sentence(reason string) string {
	for _, i := range all {
		if i.Reason == reason {
			return i.Sentence
		}
	}
	return ""
}

var all = []Info{
	{Reason: QueueFull, Client: true, Sentence: "The queue has no room.",
		Meaning: "the pool's queue has no room in requests or bytes, or an account that holds less needed the place"},
	{Reason: AccountQueueFull, Client: true, Sentence: "This account has as many requests waiting as it may.",
		Meaning: "the account's part of the queue (`queue.per_account`) has no room"},
	{Reason: AccountLimit, Client: true,
		Sentence: "This account has as many requests running here as it may: its limits.concurrent, the pool's permits.max_share, or its share of the requests that take no slot.",
		Meaning:  "the account is at its own `limits.concurrent`, at the pool's `permits.max_share`, or at its share of the [requests that take no slot](clients.md#paths-of-engines)"},
	{Reason: QueueTimeout, Client: true, Sentence: "No slot would come free, or came free, within the time that the queue allows.",
		Meaning: "the request waited as long as the pool's `max_wait` allows, or would have to wait longer"},
	{Reason: Deadline, Client: true, Sentence: "It could not begin before the client's own deadline.",
		Meaning: "the request could not begin before the client's own deadline, judged by the least time that engines have lately needed (`min_ttft` in `/debug/pools`)"},
	{Reason: Busy, Client: true, Sentence: "There was no free slot, and the request did not wait.",
		Meaning: "no free slot (or the engine reported itself full), and the request was not allowed to queue"},
	{Reason: NoRoute, Client: true, Sentence: "The routing of this model selects no colo that is in service.",
		Meaning: "no step of the model's `routing.steps` selects an active colo with a server"},
	{Reason: NoEndpoint, Client: true, Sentence: "No engine that could serve this model is up.",
		Meaning: "no engine that could serve the model is up, or no active colo with the model has a registered server"},
	{Reason: ModelNotLoaded, Client: true, Sentence: "No engine has the model now: its adapter, or the model itself, is not loaded.",
		Meaning: "every engine that could serve the model says that it does not have it, or its documents say so; see [adapters](engines.md#adapters)"},
	{Reason: RateLimited, Client: true,
		Meaning: "the account may have no request running (`limits.concurrent: 0`); retrying does not help"},
	{Reason: RequestLimit, Client: true,
		Meaning: "the account, the API key, or all clients together have used their requests a minute (`requests_per_minute`); see [limits.md](limits.md)"},
	{Reason: TokenLimit, Client: true,
		Meaning: "the account, the API key, or all clients together have used their tokens a minute (`tokens_per_minute`); see [limits.md](limits.md)"},
	{Reason: BudgetSpent, Client: true,
		Meaning: "the account, the API key, or all clients together have spent their budget of the day or the month; see [limits.md](limits.md)"},
	{Reason: Draining, Client: true,
		Meaning: "the node is shutting down"},
	{Reason: Moved, Client: true,
		Meaning: "another server of the colo is the home of the pool, and could not be asked"},
	{Reason: Starting, Client: true,
		Meaning: "the entry has no documents yet"},
	{Reason: NoServer, Client: true,
		Meaning: "the registered server of a colo could not be connected"},
	{Reason: TooManyConnections, Client: true,
		Meaning: "the client's address, or the entry as a whole, has as many connections as it may; over TLS such a connection is closed without an answer"},
	{Reason: BodyMemory, Client: true,
		Meaning: "request bodies that are still arriving take as much memory as the account (without a key: the address) may have, or all memory of the node for bodies"},
	{Reason: TableChanged, Client: true,
		Meaning: "the documents changed while the request was being read; retry at once"},
	{Reason: RoutingLoop, Client: true,
		Meaning: "the request came to a colo that it had visited before"},
	{Reason: HopLimit, Client: true,
		Meaning: "the request has passed as many servers as `retry.hops` allows"},
	{Reason: UnknownModel,
		Meaning: "the colo's table does not have the model, which was put or deleted a moment ago; the entry goes on to another colo"},
	{Reason: HopTokenReplayed,
		Meaning: "a colo server refused a request between nodes that came for the second time; only the sender of the copy gets this answer"},

	{Reason: FirstByteTimeout, Client: true,
		Meaning: "no first byte within the model's `timeouts.first_byte` or the client's own deadline"},
	{Reason: TotalTimeout, Client: true,
		Meaning: "the answer did not end within the model's `timeouts.total`"},
	{Reason: IdleTimeout, Client: true,
		Meaning: "the engine was silent in the middle of a stream for longer than `timeouts.idle`"},
	{Reason: ConnectFailed, Client: true,
		Meaning: "the engine could not be connected; nothing was generated, so a retry is safe"},
	{Reason: ColoUnreachable, Client: true,
		Meaning: "the connection to the colo server was lost before an answer"},
	{Reason: NoAnswer, Client: true,
		Meaning: "the engine closed the connection without an answer"},
	{Reason: EngineStatus, Client: true,
		Meaning: "the engine answered with a status that means failure (408, 409, 424, 5xx)"},
	{Reason: Truncated, Client: true,
		Meaning: "the engine's answer was cut before its end"},
	{Reason: EndpointMisconfigured, Client: true,
		Meaning: "the engine's URL answered 401, 403, 404 or 405, with a web page, or with a content coding that was not asked for"},
	{Reason: PathNotServed, Client: true,
		Meaning: "the engines of the model do not have the path"},
	{Reason: NotAStream, Client: true,
		Meaning: "queue events were asked for, and the engine's answer was no stream"},
	{Reason: ClientGone,
		Meaning: "the client closed its connection, or only its write half"},
	{Reason: EngineFull,
		Meaning: "the engine said that it is full; the request waits for another slot"},
	{Reason: CloseDelimited,
		Meaning: "the answer ended with the engine's connection, and nothing shows whether it was complete; the outcome is `completed`"},
	{Reason: ErrorEvent,
		Meaning: "the engine's stream ended with an error event of its own"},
	{Reason: GrantExpired,
		Meaning: "the server's right to grant ended before the request was sent; the request waits again"},
	{Reason: Panic,
		Meaning: "a fault of Colonnade"},

	{Reason: SessionTimeout, Meaning: "a realtime session reached `timeouts.websocket`"},
	{Reason: MessageTooBig, Meaning: "a message of a realtime session was over 16 MiB"},
	{Reason: TooManyFragments, Meaning: "too many fragments or control frames for what they carried"},
	{Reason: NotUTF8, Meaning: "a text message was not UTF-8"},
	{Reason: ForeignModel, Meaning: "a message of a client named another model than the session's, or was not valid JSON"},
	{Reason: ProtocolError, Meaning: "a frame broke the WebSocket protocol"},
	{Reason: Stalled, Meaning: "one side of a session took nothing of what was written to it"},
	{Reason: Silent, Meaning: "one side of a session answered no ping"},
	{Reason: Handshake, Meaning: "the client's handshake could not be answered"},
}
