package hop

import (
	"errors"
	"fmt"
	"slices"
)

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

// PlaceOnward puts stops of the plan into a token for a server of a colo: as many of the first as the receiver accepts, and as there are
// hops left. It goes by the token's Visited and HopsLeft. Those that do not fit into the token are left out when it is signed.
func (t *Token) PlaceOnward(colo string, stops []Stop) {
	t.Onward = slices.Clip(stops[:min(len(stops), maxOnward, max(t.HopsLeft, 0))])
	n, _ := t.acceptedOnward(colo)
	if t.Onward = t.Onward[:n]; n == 0 {
		t.Onward = nil
	}
}

var errOldToken = errors.New("named by a token of the version before")

// checkOnward returns an error unless all stops of the token can be accepted by its audience.
func (v *Verified) checkOnward(audience string) error {
	if len(v.Token.Onward) == 0 {
		return nil
	}
	if v.Old {
		return errOldToken
	}
	colo, _ := SplitNodeName(audience)
	_, err := v.Token.acceptedOnward(colo)
	return err
}

// acceptedOnward returns how many of the first stops a server of a colo accepts, and why not the next one. No request comes to a colo
// twice: neither to that of the receiver nor to one that it has visited, of which the last is the sender's.
func (t *Token) acceptedOnward(colo string) (n int, err error) {
	if len(t.Onward) > maxOnward {
		return 0, fmt.Errorf("it has %d stops, at most %d", len(t.Onward), maxOnward)
	}
	visited := make([]string, 0, 8)
	for _, name := range t.Visited {
		if !IsNodeName(name) {
			return 0, fmt.Errorf("the request has visited %.40q, whose colo is not named", name)
		}
		in, _ := SplitNodeName(name)
		visited = append(visited, in)
	}
	for i := range t.Onward {
		stop := &t.Onward[i]
		switch {
		case !stop.isValid():
			return i, fmt.Errorf("stop %d is not valid", i+1)
		case stop.Colo == colo:
			return i, fmt.Errorf("stop %d is in colo %.40q, which has the request", i+1, stop.Colo)
		case slices.Contains(visited, stop.Colo):
			return i, fmt.Errorf("stop %d is in colo %.40q, which the request has visited", i+1, stop.Colo)
		}
		visited = append(visited, stop.Colo)
	}
	return len(t.Onward), nil
}

// isValid reports whether a stop names a server to which a request can be sent.
func (s *Stop) isValid() bool {
	return isPlainName(s.Colo) && isPlainName(s.Node) && isAddress(s.Address) && isBoot(s.Boot) &&
		s.Revision >= 0 && s.ReturnProbability >= 0 && s.ReturnProbability <= 1 && s.RoundTrip >= 0
}
