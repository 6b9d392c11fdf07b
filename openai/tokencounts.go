package openai

// tokenCounts is the usage of Anthropic's Messages. Each event may say a part of it; each count is for the whole answer so far. -1 means not
// said.
type tokenCounts struct {
	input        int // neither read from a cache nor written to it
	cacheRead    int
	cacheCreated int
	output       int
}

var noCounts = tokenCounts{-1, -1, -1, -1}

// merge takes the counts that a later event says.
func (c *tokenCounts) merge(later tokenCounts) {
	for _, m := range [...]struct {
		to   *int
		from int
	}{{&c.input, later.input}, {&c.cacheRead, later.cacheRead}, {&c.cacheCreated, later.cacheCreated}, {&c.output, later.output}} {
		if m.from >= 0 {
			*m.to = m.from
		}
	}
}

// usage returns the counts in the terms of the other APIs: the whole prompt, and the part of it that came from a cache.
func (c *tokenCounts) usage() Usage {
	read := max(c.cacheRead, 0)
	return Usage{Prompt: max(c.input, 0) + read + max(c.cacheCreated, 0), Completion: max(c.output, 0), Cached: read}
}

// tokenCounts passes the value of a member usage of Anthropic's Messages, and sets the counts that it says. It reports whether it says any of input
// or output.
func (s *scan) tokenCounts(c *tokenCounts) (ok bool) {
	if s.space() != '{' {
		s.skip()
		return false
	}
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		switch string(key) {
		case "input_tokens":
			ok = s.count(&c.input) || ok
		case "output_tokens":
			ok = s.count(&c.output) || ok
		case "cache_read_input_tokens":
			s.count(&c.cacheRead)
		case "cache_creation_input_tokens":
			s.count(&c.cacheCreated)
		default:
			s.skip()
		}
	}
	return ok
}
