package peer

import (
	"sync"

	"colonnade/forwarding/hop"
)

const (
	// maxSequences bounds the sequences that are kept, and the reported boot ids.
	maxSequences = 4096
	// maxBootSize bounds a boot id, in bytes. One that was put by hand may be too long for a token.
	maxBootSize = 64
)

// process is a process of a colo server.
type process struct{ colo, node, boot string }

// sequences has a sequence of hop tokens for each process of a server. The document of a server may name an earlier process, or one
// that never was, if it was put by hand; then the server reports which it is. The zero value is ready for use by several goroutines at
// once.
type sequences struct {
	mu        sync.Mutex // guards the fields below
	byProcess map[process]*hop.Sequence
	reported  map[process]string // boot id of the process that answers instead of the one in a document
}

// to returns the sequence for the process that answers for a server, as far as it is known.
func (s *sequences) to(server *Server) *hop.Sequence {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := processOf(server)
	if boot, ok := s.reported[p]; ok {
		p.boot = boot
	}
	return s.getLocked(p)
}

// renew returns the sequence for a server that has refused a token of used, and has reported its boot id.
func (s *sequences) renew(server *Server, used *hop.Sequence, boot string) *hop.Sequence {
	if used.Boot() == boot {
		return used // the token was too late in its sequence
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	current := s.getLocked(process{server.Colo, server.Node, boot})
	s.reported[processOf(server)] = boot
	return current
}

// drop forgets the sequence of a token that was used before. If that was not a replay, another process goes on with the same sequence,
// such as a copy of this machine; so the next request begins another.
func (s *sequences) drop(server *Server, used *hop.Sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := (process{server.Colo, server.Node, used.Boot()}); s.byProcess[p] == used {
		delete(s.byProcess, p)
	}
}

func (s *sequences) getLocked(p process) *hop.Sequence {
	if found := s.byProcess[p]; found != nil {
		return found
	}
	if s.byProcess == nil || max(len(s.byProcess), len(s.reported)) >= maxSequences {
		// A sequence that begins anew has another name, so no number is used twice.
		s.byProcess, s.reported = map[process]*hop.Sequence{}, map[process]string{}
	}
	begun := hop.NewSequence(p.boot)
	s.byProcess[p] = begun
	return begun
}

// processOf returns the process that the document of a server names.
func processOf(server *Server) process { return process{server.Colo, server.Node, server.Boot} }

// usableBoot returns a boot id, or nothing if it is too long.
func usableBoot(boot string) string {
	if len(boot) > maxBootSize {
		return ""
	}
	return boot
}
