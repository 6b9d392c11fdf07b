package hop

// Paths of a peer listener on which nodes ask about the process that listens. Their requests carry a token as all others do, and have
// no body.
const (
	// PathOwned is for the other servers of a colo: the answer is a homes.Answer, as JSON.
	PathOwned = "/colonnade/v1/owned"
	// PathAlive is for entries and colo servers that have sent a request: the answer has no content.
	PathAlive = "/colonnade/v1/alive"
	// PathSessionUsage is for the entry through which a realtime session went, after its end: the answer is a [SessionUsage], as JSON, or 404 while
	// the session has not ended. It is given once.
	PathSessionUsage = "/colonnade/v1/session-usage"
	// PathModelFacts is for entries: the answer is what engines of the colo say about models, an openai.ModelFact by the name of each, as JSON.
	PathModelFacts = "/colonnade/v1/model-facts"
	// PathLearned is for the other servers of a colo: the answer is what this server has learned of a pool, as JSON, or 404 if that is nothing.
	PathLearned = "/colonnade/v1/learned"
	// PathLink is for nodes that send requests: the answer is 101, after which the connection carries many of them. See package link.
	PathLink = "/colonnade/v1/link"
)

// LinkProtocol is the first protocol between nodes in which a server answers on [PathLink].
const LinkProtocol = 6

// HeaderHeads is in the answer on [PathLink]: the value [BinaryHeads] says that the server reads requests with binary heads from the link. Older servers
// leave the line away.
const (
	HeaderHeads = "x-colonnade-heads"
	BinaryHeads = "binary"
)

// UpgradeLink is the value of the header line Upgrade on [PathLink], of the request and of the answer.
const UpgradeLink = "colonnade-link"

// ParamRequest is the parameter of the query of [PathSessionUsage]: the id of the request.
const ParamRequest = "request"

// SessionUsage is what a realtime session has used.
type SessionUsage struct {
	Prompt     int  `json:"prompt"`     // tokens
	Completion int  `json:"completion"` // tokens
	Unreported int  `json:"unreported"` // tokens that were generated and are in no usage report, estimated
	Reported   bool `json:"reported"`   // the engine has reported usage
}

// Parameters of the query of [PathOwned] and, but for the first two, of [PathLearned].
const (
	ParamAbout = "about" // boot id of the process that is asked about
	ParamFrom  = "from"  // boot id of the process that asks
	ParamColo  = "colo"  // of both servers
	ParamPool  = "pool"  // name of the pool
	ParamBytes = "bytes" // that the answer may have, of [PathLearned]; without it, what every version takes
)
