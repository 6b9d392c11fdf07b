package openai

import "bytes"

// skip passes any value, without recursion.
func (s *scan) skip() bool {
	var arrays [(maxDepth + 63) / 64]uint64 // a bit for each depth: set for an array
	base := s.depth
	for {
		switch c := s.space(); c {
		case '{', '[':
			if !s.enter() {
				return false
			}
			setBit(&arrays, s.depth-1, c == '[')
			if s.space() == c+2 { // in ASCII, the closing bracket is the opening one plus two
				s.leave()
			} else if c == '[' || s.memberName() {
				continue
			} else {
				return false
			}
		default:
			if !s.scalar() {
				return false
			}
		}
		if more, ok := s.after(&arrays, base); !more {
			return ok
		}
	}
}

// after is called at the end of a value inside skip. It closes what ends there, and reports whether another value
// follows.
func (s *scan) after(arrays *[(maxDepth + 63) / 64]uint64, base int) (more, ok bool) {
	for s.depth > base {
		d := s.depth - 1
		array := arrays[d/64]>>(d%64)&1 != 0
		switch c := s.space(); {
		case c == ',':
			s.i++
			ok = array || s.memberName()
			return ok, ok
		case array && c == ']', !array && c == '}':
			s.leave()
		default:
			return false, s.fail(faultSyntax)
		}
	}
	return false, true
}

func setBit(set *[(maxDepth + 63) / 64]uint64, i int, on bool) {
	set[i/64] &^= 1 << (i % 64)
	if on {
		set[i/64] |= 1 << (i % 64)
	}
}

// memberName passes a member's name.
func (s *scan) memberName() bool {
	if s.space() != '"' {
		return s.fail(faultSyntax)
	}
	start := s.i + 1
	if _, _, ok := s.str(); !ok {
		return false
	}
	s.name = span{start, s.i - 1}
	if s.space() != ':' {
		return s.fail(faultSyntax)
	}
	s.i++
	return true
}

// scalar passes a string, number or literal.
func (s *scan) scalar() bool {
	switch s.space() {
	case '"':
		raw, _, ok := s.str()
		if ok && (mayBeFileURL(raw) && s.isFileURL(raw) || s.mayHoldPath() && s.isFilePath(raw)) {
			s.fileURL = true
		}
		return ok
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

// literal passes word if the text continues with it.
func (s *scan) literal(word string) bool {
	if !s.at(word) {
		return s.fail(faultSyntax)
	}
	s.i += len(word)
	return true
}

func (s *scan) at(word string) bool {
	return len(s.b)-s.i >= len(word) && string(s.b[s.i:s.i+len(word)]) == word
}

func (s *scan) number() bool {
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else if !s.digits() {
		return s.fail(faultSyntax)
	}
	if s.peek() == '.' {
		s.i++
		if !s.digits() {
			return s.fail(faultSyntax)
		}
	}
	if s.peek()|0x20 != 'e' {
		return true
	}
	s.i++
	if c := s.peek(); c == '+' || c == '-' {
		s.i++
	}
	return s.digits() || s.fail(faultSyntax)
}

func (s *scan) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scan) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
		s.i++
	}
	return s.i > start
}

// start returns where the next value begins.
func (s *scan) start() int {
	s.space()
	return s.i
}

// value passes a value and returns it as written.
func (s *scan) value() ([]byte, bool) {
	s.space()
	start := s.i
	ok := s.skip()
	return s.b[start:s.i], ok
}

// text passes a value and returns its unescaped text, if it is a string.
func (s *scan) text() []byte {
	raw, ok := s.value()
	if !ok {
		return nil
	}
	return unescaped(raw)
}

// end reports whether only white space follows.
func (s *scan) end() bool {
	s.space()
	return s.fault == noFault && s.i == len(s.b)
}

// unescaped returns the text of a raw value, if it is a string, else nil.
func unescaped(raw []byte) []byte {
	text, ok := unquoted(raw)
	if ok && bytes.IndexByte(text, '\\') >= 0 {
		text, _ = appendUnescaped(make([]byte, 0, len(text)), text)
	}
	return text
}

// unquoted returns the part between the quotes of a raw string, if the value is one.
func unquoted(raw []byte) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	return raw[1 : len(raw)-1], true
}
