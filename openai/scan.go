package openai

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// maxDepth bounds how deep JSON may nest, since the parsers of engines recurse.
const maxDepth = 200

// maxKey bounds the keys that can match a field: the longest name has 22 characters, each of which takes at most three
// bytes in a spelling that folds to it.
const maxKey = 96

type fault uint8

const (
	noFault fault = iota
	faultSyntax
	faultDepth
	faultText
)

// scan passes over JSON once, checking all of it and building nothing. Its methods go from one token to the next; after
// the first error they all fail.
type scan struct {
	b       []byte
	i       int
	depth   int
	lax     bool // for an engine's text: bytes that are not UTF-8 pass
	fault   fault
	name    span // of the member passed last, as written between its quotes
	fileURL bool // a URL of a file was passed; see isFileURL
	scratch [maxKey]byte
}

func (s *scan) fail(f fault) bool {
	if s.fault == noFault {
		s.fault = f
	}
	return false
}

// space goes to the next byte that is not white space and returns it, or 0 at the end. A NUL in the text is returned
// too: no caller takes it for a token.
func (s *scan) space() byte {
	for s.i < len(s.b) {
		c := s.b[s.i]
		if c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' { // the first condition is nearly always enough
			return c
		}
		s.i++
	}
	return 0
}

// firstMember enters an object and returns its first key, standing at the value. ok is false for an empty object, which
// has then been left, and for an error.
func (s *scan) firstMember() (key []byte, ok bool) {
	if s.space() != '{' {
		return nil, s.fail(faultSyntax)
	}
	if !s.enter() {
		return nil, false
	}
	if s.space() == '}' {
		s.leave()
		return nil, false
	}
	return s.key()
}

// nextMember goes on from the end of a value to the next key, or leaves the object. The previous key becomes invalid.
func (s *scan) nextMember() (key []byte, ok bool) {
	switch s.space() {
	case ',':
		s.i++
		return s.key()
	case '}':
		s.leave()
		return nil, false
	}
	return nil, s.fail(faultSyntax)
}

// firstElement enters an array, standing at its first element.
func (s *scan) firstElement() bool {
	if s.space() != '[' {
		return s.fail(faultSyntax)
	}
	if !s.enter() {
		return false
	}
	if s.space() == ']' {
		s.leave()
		return false
	}
	return true
}

// nextElement goes on from the end of an element to the next one, or leaves the array.
func (s *scan) nextElement() bool {
	switch s.space() {
	case ',':
		s.i++
		return true
	case ']':
		s.leave()
		return false
	}
	return s.fail(faultSyntax)
}

func (s *scan) enter() bool {
	if s.depth == maxDepth {
		return s.fail(faultDepth)
	}
	s.i++
	s.depth++
	return true
}

func (s *scan) leave() {
	s.i++
	s.depth--
}

// key passes a member's name and colon. The result is valid until the next key.
func (s *scan) key() ([]byte, bool) {
	if s.space() != '"' {
		return nil, s.fail(faultSyntax)
	}
	start := s.i + 1
	raw, escaped, ok := s.str()
	if !ok {
		return nil, false
	}
	s.name = span{start, s.i - 1}
	if s.space() != ':' {
		return nil, s.fail(faultSyntax)
	}
	s.i++
	s.space()
	// A longer one cannot be the name of a field, in any spelling.
	if escaped && len(raw) <= 6*maxKey {
		raw, _ = appendUnescaped(s.scratch[:0], raw)
	}
	return raw, true
}

const (
	Low  = 0x0101010101010101
	high = 0x8080808080808080
)

// str passes a string, standing at its opening quote, and returns the text between the quotes, as written.
func (s *scan) str() (raw []byte, escaped, ok bool) {
	b, i := s.b, s.i+1
	start, beyondASCII := i, uint64(0)
	for i < len(b) {
		if i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			beyondASCII |= w & high // perhaps of bytes after the end, which does no harm
			stops := special(w)
			if stops == 0 {
				n, seen := plainBlocks(b[i+8:])
				i, beyondASCII = i+8+n, beyondASCII|seen
				continue
			}
			i += bits.TrailingZeros64(stops) >> 3
		}
		switch c := b[i]; {
		case c == '"':
			s.i = i + 1
			raw = b[start:i]
			if beyondASCII != 0 && !s.lax && !utf8.Valid(raw) {
				return nil, false, s.fail(faultText)
			}
			return raw, escaped, true
		case c == '\\':
			n := escapeLen(b[i:])
			if n == 0 {
				s.i = i
				return nil, false, s.fail(faultSyntax)
			}
			i += n
			escaped = true
		case c < ' ':
			s.i = i
			return nil, false, s.fail(faultText)
		default:
			beyondASCII |= uint64(c) & 0x80
			i++
		}
	}
	s.i = len(b)
	return nil, false, s.fail(faultSyntax)
}

// plainBlocks returns how many bytes at the beginning of b, in blocks of 32, stop no string, and marks those beyond ASCII. To check four words at
// once takes half of the time.
func plainBlocks(b []byte) (n int, beyondASCII uint64) {
	for ; n+32 <= len(b); n += 32 {
		block := b[n : n+32]
		w0, w1 := binary.LittleEndian.Uint64(block), binary.LittleEndian.Uint64(block[8:])
		w2, w3 := binary.LittleEndian.Uint64(block[16:]), binary.LittleEndian.Uint64(block[24:])
		if special(w0)|special(w1)|special(w2)|special(w3) != 0 {
			break
		}
		beyondASCII |= (w0 | w1 | w2 | w3) & high
	}
	return n, beyondASCII
}

// special marks, in the top bit of each byte, quotes, backslashes and control characters. Only the lowest mark is
// reliable.
func special(w uint64) uint64 {
	below := w ^ Low*('"'^' ') // a quote becomes a space, and what was one comes after it, so quotes and control characters are what comes before '!'
	slash := w ^ Low*'\\'
	return ((below - Low*'!') | (slash - Low)) &^ w & high // w has the top bits of both
}

// escapeLen returns the length of the escape at the beginning of b, or 0.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b[2:]); ok {
			return 6
		}
	}
	return 0
}
