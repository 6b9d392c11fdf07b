package hop

// maxOnward is the highest number of stops in a token.
const maxOnward = 16

// Stop is a server of the plan to which the receiver of a token may send the request on if its own colo is out of capacity.
type Stop struct {
	Colo    string `json:"colo"`
	Node    string `json:"node"`
	Address string `json:"at"`   // host:port
	Boot    string `json:"boot"` // the process, as registered
	// Revision is that of the sender's table for the servers of the colo: see [Token.Revision].
	Revision int64 `json:"rev,omitempty"`
	// ReturnProbability is that of the colo: see [Token.ReturnProbability].
	ReturnProbability float64 `json:"chc,omitempty"`
	// RoundTrip is that from the server before this one, which for the first stop is the receiver of the token.
	RoundTrip Millis `json:"rtt,omitempty"`
	// Last says that the plan has no further colo after this one.
	Last bool `json:"last,omitempty"`
}
