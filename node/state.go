package node

import (
	"time"

	"colonnade/entry"
	"colonnade/fleet"
)

// ConfigState is what a node says at /debug/config: how fresh its documents are, and what of them is not in force as it
// stands in the store.
type ConfigState struct {
	Node       string            `json:"node"`
	Revision   int64             `json:"revision"`    // of the store, as far as the node has heard of it
	AgeSeconds float64           `json:"age_seconds"` // since the store last said anything
	Rejected   []fleet.Rejection `json:"rejected"`
	Conflicts  []fleet.Conflict  `json:"conflicts"`
	Held       []string          `json:"held"`    // keys: deleted in the store, and in force until that is confirmed
	Suspect    []string          `json:"suspect"` // keys: their leases ran out, and they stay in force for a while

	Certificates []CertificateState `json:"certificates"`
	Unreached    []entry.Unreached  `json:"unreached"` // of an entry: colos that its last requests did not reach
}

// CertificateState is when a certificate in force is good.
type CertificateState struct {
	Listener string    `json:"listener"` // public or peer
	Begins   time.Time `json:"begins"`
	Expires  time.Time `json:"expires"`
}

// certificate is one of the node's, in whatever files it is replaced by.
type certificate struct {
	listener string
	good     func() (begins, expires time.Time)
}

func (p *parts) configState() ConfigState {
	s := p.watcher.State()
	c := ConfigState{
		Node: p.config.Node, Revision: s.Revision, AgeSeconds: s.Age.Seconds(),
		Rejected: list(s.Rejected), Conflicts: list(s.Conflicts), Held: list(s.Held), Suspect: list(s.Suspect),
		Certificates: []CertificateState{}, Unreached: []entry.Unreached{},
	}
	for _, one := range p.certificates {
		begins, expires := one.good()
		c.Certificates = append(c.Certificates, CertificateState{one.listener, begins, expires})
	}
	if p.unreached != nil {
		c.Unreached = list(p.unreached())
	}
	return c
}

// list makes none an empty list, for those who read JSON.
func list[T any](all []T) []T { return append([]T{}, all...) }
