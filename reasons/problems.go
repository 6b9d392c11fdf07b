package reasons

// Kinds of problems, of what the documents say.
const (
	StoreEmpty           = "store_empty"
	NoModel              = "no_model"
	NoColo               = "no_colo"
	ModelWithoutEndpoint = "model_without_endpoint"
	ModelWithoutRoute    = "model_without_route"
	DocumentRejected     = "document_rejected"
	DocumentConflict     = "document_conflict"
	ReferenceDangling    = "reference_dangling"
	PoolSetting          = "pool_setting"
)

// Kinds of problems, of what runs.
const (
	ColoWithoutServer   = "colo_without_server"
	PoolDown            = "pool_down"
	EngineLacksModel    = "engine_lacks_model"
	EngineEventsUnread  = "engine_events_unread"
	EntryNotBelieved    = "entry_not_believed"
	ColoDisbelieves     = "colo_disbelieves"
	NoAPIKey            = "no_api_key"
	FleetKeyRefused     = "fleet_key_refused"
	FleetKeyUnreadable  = "fleet_key_unreadable"
	FleetKeysDiffer     = "fleet_keys_differ"
	AdminTokensInvalid  = "admin_tokens_invalid"
	IssuerWithoutKeys   = "issuer_without_keys"
	IssuerAway          = "issuer_away"
	NodeUnreachable     = "node_unreachable"
	NodeNotReady        = "node_not_ready"
	NodeDrained         = "node_drained"
	StoreSilent         = "store_silent"
	StoreMismatch       = "store_mismatch"
	DeletionsHeld       = "deletions_held"
	ChangeStaged        = "change_staged"
	LeaseExpired        = "lease_expired"
	CertificateExpired  = "certificate_expired"
	CertificateExpiring = "certificate_expiring"
	ServerUnresponsive  = "server_unresponsive"
	ColoUnreached       = "colo_unreached"
	RedisAway           = "redis_away"
	CaptureRunning      = "capture_running"
	CaptureFailing      = "capture_failing"
	EventsLost          = "events_lost"
	SinkClosed          = "sink_closed"
	SinkFailing         = "sink_failing"
	SinkBehind          = "sink_behind"
	SinkLosing          = "sink_losing"
	SinkRejecting       = "sink_rejecting"
	SinkUnreadable      = "sink_unreadable"
	SinkUnsaved         = "sink_unsaved"
	EngineBlocked       = "engine_blocked"
	EngineShared        = "engine_shared"
	EngineOut           = "engine_out"
	EngineRestarting    = "engine_restarting"
	GPUFailed           = "gpu_failed"
	RecordUnreadable    = "record_unreadable"
	RecordOrphaned      = "record_orphaned"
	RecordWrittenOff    = "record_written_off"
	NothingSelected     = "nothing_selected"
)

// Problem is what is known of a kind of problem: what it does to clients, and what an operator can do about it.
type Problem struct {
	Kind    string
	Meaning string // for the table in the documentation
	Effect  string // on clients; a single problem may say it more closely
	Action  string // likewise
}

// Problems lists every kind of problem. The order is that of the documentation.
func Problems() []Problem { return problems }

// ProblemOf returns what is known of a kind, which must be one of the list.
func ProblemOf(kind string) Problem {
	for _, p := range problems {
		if p.Kind == kind {
			return p
		}
	}
	panic("reasons: no such kind of problem: " + kind)
}

var problems = []Problem{
	{Kind: StoreEmpty, Meaning: "there is no document at all",
		Effect: "every request gets 401, or 404 at an entry with -open", Action: "apply the documents of the fleet: colonnade config apply PATH; a node that should have some may follow the wrong etcd (-etcd)"},
	{Kind: NoModel, Meaning: "there are documents, and none of a model",
		Effect: "every request gets 404: no model of its name", Action: "apply a document models/NAME"},
	{Kind: NoColo, Meaning: "there are models, and no active colo",
		Effect: "every request gets 503", Action: "apply a document colos/NAME, or set state: active in one"},
	{Kind: ModelWithoutEndpoint, Meaning: "no active colo has an endpoint with slots in the model's pool",
		Effect: "every request for the model gets 503", Action: "check the field pool of the model and of the endpoints, the concurrency and the state of these, and the state of their colos"},
	{Kind: ModelWithoutRoute, Meaning: "the model's routing sends no request to a colo that has endpoints of its pool",
		Effect: "every request for the model gets 503", Action: "change routing.steps of the model, or the names, regions and labels of the colos"},
	{Kind: DocumentRejected, Meaning: "the newest version of a document is not in force, since it is not valid",
		Effect: "the version before stays in force, if there is one", Action: "correct the document: colonnade config get KEY, then config apply"},
	{Kind: DocumentConflict, Meaning: "two documents claim the same URL, API key, alias or colo",
		Effect: "one of the two is not in force in part", Action: "change or delete one of them"},
	{Kind: ReferenceDangling, Meaning: "a document names something that is not there, or a field has no effect for the lack of something else",
		Effect: "the field has no effect", Action: "correct the name, or apply what is missing"},
	{Kind: PoolSetting, Meaning: "settings of a pool that are allowed and hardly intended",
		Effect: "the pool serves, in another order than its settings suggest", Action: "change the settings as the text says"},

	{Kind: ColoWithoutServer, Meaning: "no server of an active colo is registered",
		Effect: "requests go to other colos; models that only this colo has get 503", Action: "start a server of the colo, or look why it does not reach etcd; or set state: disabled in the colo's document"},
	{Kind: PoolDown, Meaning: "no engine of a pool is up: each is down or ejected, or silent",
		Effect: "requests for the pool's models get 503, unless another colo has the pool", Action: "start the engines, or look at their logs; colonnade status shows why each is out"},
	{Kind: EngineLacksModel, Meaning: "engines of a pool do not have one of its models or adapters; an error if no engine that is up has it",
		Effect: "none: other engines of the pool serve the model", Action: "load the model or the adapter on the engines that the text names; or correct `upstream_name` and `adapter` of the model, or `names` and `adapters` of the endpoints"},
	{Kind: EngineEventsUnread, Meaning: "the events of the KV caches of engines that are up cannot be read, though documents name them in `kv_events`",
		Effect: "none: the pool goes by the metrics of these engines, and finds less of the prompts in their caches", Action: "start the engines with --kv-events-config, let the colo servers reach the port, or correct `kv_events`"},
	{Kind: EntryNotBelieved, Meaning: "every colo that answers this entry refuses its hop tokens, so the entry is not ready",
		Effect: "every request at this entry gets 502", Action: "give the entry the fleet key of the colo servers (-key-file), and set its clock; the log names the colos"},
	{Kind: ColoDisbelieves, Meaning: "a colo refuses the hop tokens of an entry, and others accept them",
		Effect: "the entry sends requests to other colos; models that only this colo has get 502", Action: "give the colo's servers the fleet key of the fleet (-key-file), and set their clocks"},
	{Kind: NoAPIKey, Meaning: "an entry without -open knows no API key, and no issuer of tokens",
		Effect: "every request gets 401", Action: "create a key: colonnade keys create -account NAME"},
	{Kind: FleetKeyRefused, Meaning: "a node has another fleet key than those with which it exchanges requests",
		Effect: "requests that the node sends to those nodes fail with 502", Action: "give it the key file of the others (-key-file); colonnade keys rotate-fleet says which keys each node has"},
	{Kind: FleetKeyUnreadable, Meaning: "the key file of a node cannot be read again",
		Effect: "none as long as the keys that it has are right", Action: "correct the file, as the text says"},
	{Kind: FleetKeysDiffer, Meaning: "nodes accept different fleet keys, as during a rotation",
		Effect: "none while each node accepts the key that the others sign with", Action: "complete the rotation: colonnade keys rotate-fleet"},
	{Kind: AdminTokensInvalid, Meaning: "the file of tokens of a node's admin API cannot be read, can be read by others, or has a line that is not right",
		Effect: "none; requests to the admin API get 401 with tokens that are not in force", Action: "correct the file, as the text says; see docs/admin-api.md"},
	{Kind: IssuerWithoutKeys, Meaning: "an entry has never fetched the keys of an issuer of tokens",
		Effect: "requests with its tokens get 401 at that entry", Action: "check issuer and jwks of the document, and whether the entry reaches that URL"},
	{Kind: IssuerAway, Meaning: "an entry cannot fetch the keys of an issuer of tokens any more",
		Effect: "tokens of the keys that are known are served; those of a new key get 401", Action: "look at the issuer, and at the network between it and the entry"},
	{Kind: NodeUnreachable, Meaning: "a registered node cannot be asked for its state",
		Effect: "not known", Action: "run the command where the admin listeners of the nodes are reached, or look at the node's log"},
	{Kind: NodeDrained, Meaning: "an operator drains a node whose process goes on",
		Effect: "none while other nodes serve, which have the load of this one too; an error if it is the last entry, or the last server of its colo", Action: "when the work on it is done, take it back: POST /api/v1/node/undrain on its admin listener"},
	{Kind: NodeNotReady, Meaning: "a node says that it is not ready",
		Effect: "an entry gets no requests from load balancers; a colo server grants nothing", Action: "do what the reason says"},
	{Kind: StoreSilent, Meaning: "a node has heard nothing from etcd, or could not read its files, for 20 s",
		Effect: "none as long as the last good documents are right; changes have no effect at this node", Action: "look at etcd, and at the network between it and the node"},
	{Kind: StoreMismatch, Meaning: "a node has seen a newer revision than etcd has",
		Effect: "the node serves by other documents than those in etcd", Action: "check -etcd of the node; after a restore of etcd, see docs/backup.md"},
	{Kind: DeletionsHeld, Meaning: "so many documents vanished at once that nodes keep them in force",
		Effect: "none: what was deleted still serves", Action: "if the deletions are intended: colonnade config confirm-deletions; else apply the documents again"},
	{Kind: ChangeStaged, Meaning: "a node tries a change of documents that the other nodes do not have (config apply -canary)",
		Effect: "requests of this node are served by the changed documents", Action: "none: the change goes to all nodes or away when the command ends that stages it, or 15 s after it was killed"},
	{Kind: LeaseExpired, Meaning: "registrations whose leases have expired stay in force for a while",
		Effect: "none, as long as those nodes still answer", Action: "look whether the nodes live and reach etcd"},
	{Kind: CertificateExpired, Meaning: "a certificate in use has expired, or there is none",
		Effect: "connections to the listener fail", Action: "replace the files, or see the log for why none was issued"},
	{Kind: CertificateExpiring, Meaning: "a certificate expires soon, or cannot be renewed",
		Effect: "none until it expires", Action: "replace the files, or see the log for why it is not renewed"},
	{Kind: ServerUnresponsive, Meaning: "a colo server has not answered the last request of an entry",
		Effect: "requests go to another server or colo, some after a delay", Action: "look at the server, and at the network between it and the entry"},
	{Kind: ColoUnreached, Meaning: "an entry reaches no server of a colo, and asks that colo last",
		Effect: "requests go to other colos; models that only this colo has get 502 or 503", Action: "look at the colo, and at the network between it and the entry"},
	{Kind: RedisAway, Meaning: "an entry does not reach the Redis through which limits are shared",
		Effect: "the entry enforces its share of the limits, so an account may be refused before it has used all of them", Action: "look at Redis, and at the network between it and the entry"},
	{Kind: CaptureRunning, Meaning: "an entry writes the requests and responses of an account, with their content, to a sink (colonnade capture start)",
		Effect: "what the account sends and gets is kept outside of Colonnade", Action: "if it has served its purpose, end it: colonnade capture stop NAME; else it ends by itself at its time"},
	{Kind: CaptureFailing, Meaning: "an entry cannot write what it captures",
		Effect: "none; the capture has gaps", Action: "look at the sink: its path, its mode, or whether its URL answers"},
	{Kind: EventsLost, Meaning: "a node has lost events in the last minutes",
		Effect: "none; usage may be billed too low", Action: "free space on the disk of -data-dir, or see the log"},
	{Kind: SinkClosed, Meaning: "a node cannot open a sink of events",
		Effect: "none; events are kept, and dropped at the bound of the disk", Action: "see what is wrong beside it; correct the document, or the flag -sink and start the node again. A sink whose position another process has is opened once that ends"},
	{Kind: SinkFailing, Meaning: "a sink takes no events of a node",
		Effect: "none; events are kept and sent later, and dropped at the bound of the disk", Action: "look at the sink, its credential, and the network between it and the node"},
	{Kind: SinkBehind, Meaning: "a sink is more than a minute behind the events of a node",
		Effect: "none; events are kept, and dropped at the bound of the disk", Action: "make the sink faster, or its batches larger (batch_events, batch_bytes)"},
	{Kind: SinkLosing, Meaning: "events were dropped at the bound of the disk before a sink had taken them",
		Effect: "none; usage may be billed too low", Action: "bring the sink back; the node cannot send these events any more"},
	{Kind: SinkRejecting, Meaning: "a sink has rejected events for good",
		Effect: "none; usage may be billed too low", Action: "look at the reason, and at the table or the limits of the sink; the log has the ids of the events, which DIR/events still has"},
	{Kind: SinkUnreadable, Meaning: "a node cannot read some of its events for a sink",
		Effect: "none; these events are sent once they can be read, and dropped at the bound of the disk; the others are sent meanwhile", Action: "look at the file that the text names: its mode, its owner, and its disk"},
	{Kind: SinkUnsaved, Meaning: "a node cannot save how far a sink has come",
		Effect: "none; after a restart the sink gets events again", Action: "free space on the disk of -data-dir"},
	{Kind: EngineBlocked, Meaning: "a server has waited for an engine for longer than 20 s, since another process owns it",
		Effect: "the engine's slots are not used", Action: "look at the process that the text names; if it has ended, colonnade config delete RECORD"},
	{Kind: EngineShared, Meaning: "two endpoints of a colo are the same engine under different names",
		Effect: "the engine gets the requests of both: twice as many as it should", Action: "delete one of the two documents, or correct its url"},
	{Kind: EngineOut, Meaning: "`colonnade register` gives its engine no requests, as long as the engine does not answer or a GPU of it is broken",
		Effect: "none while other engines of the pool have room", Action: "do what the reason says; colonnade status -workers shows the engine and its GPUs, colonnade events tail -kind engine what has happened"},
	{Kind: EngineRestarting, Meaning: "an engine of `colonnade register` has ended by itself, and is started again after a pause",
		Effect: "none while other engines of the pool have room", Action: "look at the engine's output, which is in the log of colonnade register"},
	{Kind: GPUFailed, Meaning: "a GPU is broken: the driver has reported an error that needs a reset, or errors of its memory, or does not find it any more",
		Effect: "the engine that uses it gets no requests", Action: "stop what uses the GPU, and reset it or replace it, as the text says"},
	{Kind: RecordUnreadable, Meaning: "a record of a colo server's process cannot be read as a whole",
		Effect: "engines that it names may not be granted", Action: "if its process has ended: colonnade config delete RECORD"},
	{Kind: RecordOrphaned, Meaning: "a record whose process is not registered holds engines",
		Effect: "other servers do not grant on these engines for up to 10 s", Action: "wait; if it stays, look at the process that the record names"},
	{Kind: RecordWrittenOff, Meaning: "records of silent processes were deleted since the start of a server",
		Effect: "engines may have had more requests than slots for a while", Action: "look why the processes fell silent"},
	{Kind: NothingSelected, Meaning: "the flags of the command select nothing",
		Effect: "none", Action: "correct -colo and -pool, or start a colo server"},
}
