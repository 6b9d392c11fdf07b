package hop

// Paths of a peer listener on which nodes ask about the process that listens. Their requests carry a token as all others do, and have
// no body.
const (
	// PathOwned is for the other servers of a colo: the answer is a homes.Answer, as JSON.
	PathOwned = "/colonnade/v1/owned"
	// PathAlive is for entries and colo servers that have sent a request: the answer has no content.
	PathAlive = "/colonnade/v1/alive"
)

// Parameters of the query of [PathOwned].
const (
	ParamAbout = "about" // boot id of the process that is asked about
	ParamFrom  = "from"  // boot id of the process that asks
	ParamColo  = "colo"  // of both servers
)
