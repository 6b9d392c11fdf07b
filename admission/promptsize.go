package admission

import "sync"

// The size of a token before prompts have shown it, and for how many tokens that counts.
const (
	guessedTokenBytes = 4
	guessedTokens     = 4 << 10
)

// maxPromptTokens is how many tokens of prompts the measured size goes by: the last ones count most.
const maxPromptTokens = 1 << 20

// promptSize measures how many bytes of the text of prompts a token has. It is safe for concurrent use; the zero value is ready.
type promptSize struct {
	mu            sync.Mutex // guards the fields below
	bytes, tokens float64
}

// add takes a prompt whose engine has counted its tokens.
func (s *promptSize) add(bytes, tokens int) {
	if bytes <= 0 || tokens <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes, s.tokens = s.bytes+float64(bytes), s.tokens+float64(tokens)
	if s.tokens > maxPromptTokens {
		s.bytes, s.tokens = s.bytes/2, s.tokens/2
	}
}

// bytesPerToken is bounded, since the usage of an engine may be anything.
func (s *promptSize) bytesPerToken() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(max((s.bytes+guessedTokenBytes*guessedTokens)/(s.tokens+guessedTokens), 1./64), 64)
}

// ReportPrompt reports how many tokens a prompt has, by the engine, whose text has so many bytes.
func (p *Pool) ReportPrompt(bytes, tokens int) { p.prompts.add(bytes, tokens) }
