package fleettest

import (
	"strings"
	"sync"
	"time"

	"colonnade/forwarding/hop"
)

// hopSequences has the sequence of hop tokens for each process of a colo server.
type hopSequences struct {
	mu     sync.Mutex // guards the field below
	byBoot map[string]*hop.Sequence
}

func (s *hopSequences) to(boot string) *hop.Sequence {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byBoot[boot] == nil {
		s.byBoot[boot] = hop.NewSequence(boot)
	}
	return s.byBoot[boot]
}

// SignHop returns a hop token as an entry signs it, for the running process of the colo server that is the audience.
func (f *Fleet) SignHop(token hop.Token, to hop.Binding, issued time.Time) string {
	f.T.Helper()
	NeedsFleet(f.T, "a listener for other nodes")
	boot := ""
	for _, c := range f.Colos {
		if c.Node == to.Audience || hop.NodeName(c.Colo, c.Node) == to.Audience {
			boot = c.Boot
		}
	}
	signed, err := f.Keys.Sign(&token, f.hopSequences.to(boot), &to, issued)
	if err != nil {
		f.T.Fatal(err)
	}
	return signed
}

// JSONHeader has the header lines of a request that has no other than Content-Type: application/json, for [hop.Binding].
func JSONHeader(dst []byte, name string) []byte {
	if strings.EqualFold(name, "Content-Type") {
		dst = append(dst, "application/json"...)
	}
	return dst
}
