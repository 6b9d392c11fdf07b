package openai

import "bytes"

// choices counts the pieces of content in the choices of chat and of completions.
func (s *scan) choices(m *message) {
	if s.space() != '[' {
		s.skip()
		return
	}
	m.noChoice = true
	for more := s.firstElement(); more; more = s.nextElement() {
		m.noChoice = false
		m.deltas += s.choice()
	}
}

func (s *scan) choice() (deltas int) {
	if s.space() != '{' {
		s.skip()
		return 0
	}
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		switch {
		case string(key) == "text":
			deltas = max(deltas, s.filled())
		case string(key) == "delta" && s.peek() == '{':
			deltas = max(deltas, s.delta())
		default:
			s.skip()
		}
	}
	return deltas
}

// delta returns 1 if a delta holds anything but a role: content, reasoning, a refusal, a tool call.
func (s *scan) delta() (deltas int) {
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		if string(key) == "role" {
			s.skip()
		} else {
			deltas = max(deltas, s.filled())
		}
	}
	return deltas
}

// filled passes a value and returns 1 if it is a string, array or object that is not empty.
func (s *scan) filled() int {
	raw, ok := s.value()
	if !ok {
		return 0
	}
	switch raw[0] {
	case '[', '{':
		raw = bytes.TrimLeft(raw[1:], " \t\r\n")
	case '"':
		raw = raw[1:]
	default:
		return 0
	}
	return min(len(raw)-1, 1)
}
