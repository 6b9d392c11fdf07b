package peer

import (
	"sync"

	"colonnade/forwarding/hop"
)

const (
	// maxSequences bounds the processes of servers whose sequences are kept.
	maxSequences = 4096
	// maxBootSize bounds a boot id, in bytes. One that was put by hand may be too long for a token.
	maxBootSize = 64
)

// process is a process of a colo server, by the boot id that its document has or that it reports itself.
type process struct{ colo, node, boot string }

// sequences has a sequence of hop tokens for each process of a server. The document of a server may name an earlier process, or one
// that never was, if it was put by hand; then the server reports which it is. The zero value is ready for use by several goroutines at
// once.
type sequences struct {
	mu sync.Mutex // guards the field below
	of map[process]*hop.Sequence
}

// to returns the sequence for a server, as its document names it.
func (s *sequences) to(server *Server) *hop.Sequence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.getLocked(process{server.Colo, server.Node, server.Boot})
}

// renew returns the sequence for a server that has refused a token of used, and has reported its boot id.
func (s *sequences) renew(server *Server, used *hop.Sequence, boot string) *hop.Sequence {
	if used.Boot() == boot {
		return used // the token was too late in its sequence
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.getLocked(process{server.Colo, server.Node, boot})
	s.of[process{server.Colo, server.Node, server.Boot}] = next
	return next
}

// drop forgets the sequence of a token that was used before. If that was not a replay, another process goes on with the same sequence,
// such as a copy of this machine; so the next request begins another.
func (s *sequences) drop(server *Server, used *hop.Sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, boot := range [...]string{server.Boot, used.Boot()} {
		if p := (process{server.Colo, server.Node, boot}); s.of[p] == used {
			delete(s.of, p)
		}
	}
}

func (s *sequences) getLocked(p process) *hop.Sequence {
	if found := s.of[p]; found != nil {
		return found
	}
	if s.of == nil || len(s.of) >= maxSequences {
		s.of = map[process]*hop.Sequence{} // a sequence that begins anew has another name, so no number is used twice
	}
	begun := hop.NewSequence(p.boot)
	s.of[p] = begun
	return begun
}

// usableBoot returns a boot id, or nothing if it is too long.
func usableBoot(boot string) string {
	if len(boot) > maxBootSize {
		return ""
	}
	return boot
}
