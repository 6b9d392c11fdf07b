package hop

import (
	"errors"
	"fmt"
	"slices"
)

// maxOnward is the highest number of stops in a token.
const maxOnward = 16

// Stop is a server of the next colo of the plan, to which the receiver of a token may forward the request if its own colo is out of capacity.
type Stop struct {
	Colo    string `json:"colo"`
	Node    string `json:"node"`
	Address string `json:"at"`   // host:port
	Boot    string `json:"boot"` // the process, as registered
	// Protocol is the newest that the server speaks, from [NodeNamesProtocol] on; 0 = not known.
	Protocol int `json:"pro,omitempty"`
	// Revision is the revision of the servers of the colo in the entry's table: see [Token.Revision].
	Revision int64 `json:"rev,omitempty"`
	// ReturnProbability is the return probability of the colo: see [Token.ReturnProbability].
	ReturnProbability float64 `json:"chc,omitempty"`
	// RoundTrip is the round trip from the stop before this one, or for the first stop from the receiver of the token.
	RoundTrip Millis `json:"rtt,omitempty"`
	// Last means that the plan has no further colo after this one.
	Last bool `json:"last,omitempty"`
	// NoAlternative means that the request could go nowhere else if the server were lost, as far as the entry knows: so it is not given up
	// there when the server is silent.
	NoAlternative bool `json:"noalt,omitempty"`
}

// PlaceOnward sets t.Onward, in a token for a server of a colo, to the longest beginning of stops that the server accepts and for which hops are
// left. Visited and HopsLeft must be set before. Signing the token drops the last stops if the token would be too long.
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

// acceptedOnward returns the number of stops, from the first on, that a server of a colo accepts, and the error of the next one. A stop must
// not lead to a colo a second time: neither to the colo of the receiver nor to one that the request has visited.
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
		s.Protocol >= 0 && s.Revision >= 0 && s.ReturnProbability >= 0 && s.ReturnProbability <= 1 && s.RoundTrip >= 0
}
