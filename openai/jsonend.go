package openai

import (
	"encoding/binary"
	"math/bits"
)

// JSONEnd is what the bytes of a text show of its end, if it is meant to be JSON.
type JSONEnd uint8

const (
	// JSONUnclear is the end of a text that shows nothing: it does not begin with an object, an array or a string, or has more than
	// white space behind that.
	JSONUnclear JSONEnd = iota
	// JSONOpen is the end of a text that was cut, or that is empty: a bracket or a quote is missing.
	JSONOpen
	// JSONClosed is the end of a text that is one whole value.
	JSONClosed
)

// jsonEnd finds the end of a JSON text that comes in pieces. It looks at brackets and strings only, so numbers and words that other
// parsers accept, such as NaN, do not matter. The zero value is ready.
type jsonEnd struct {
	depth    int
	closed   bool
	unclear  bool
	inString bool
	escaped  bool // the next byte belongs to an escape
}

// write takes the next bytes of the text.
func (e *jsonEnd) write(b []byte) {
	for i := 0; i < len(b) && !e.unclear; {
		switch {
		case e.inString:
			i = e.passString(b, i)
		case e.depth > 0:
			i = e.passInside(b, i)
		default:
			e.atTop(b[i])
			i++
		}
	}
}

// atTop takes a byte outside of all values.
func (e *jsonEnd) atTop(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n':
	case '"', '{', '[':
		e.unclear, e.inString = e.closed, c == '"'
		if !e.inString {
			e.depth = 1
		}
	default:
		e.unclear = true
	}
}

// passInside takes the bytes of an object or array from b[i] on, and returns the place behind its next bracket or quote.
func (e *jsonEnd) passInside(b []byte, i int) int {
	for ; i < len(b); i++ {
		if i+8 <= len(b) && structural(binary.LittleEndian.Uint64(b[i:])) == 0 {
			i += 7
			continue
		}
		switch b[i] {
		case '"':
			e.inString = true
			return i + 1
		case '{', '[':
			e.depth++
		case '}', ']':
			if e.depth--; e.depth == 0 {
				e.closed = true
				return i + 1
			}
		}
	}
	return i
}

// passString takes the bytes of a string from b[i] on, and returns the place behind its closing quote, or len(b).
func (e *jsonEnd) passString(b []byte, i int) int {
	for i < len(b) {
		if !e.escaped && i+8 <= len(b) {
			stops := special(binary.LittleEndian.Uint64(b[i:]))
			if stops == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(stops) >> 3
		}
		c := b[i]
		i++
		switch {
		case e.escaped:
			e.escaped = false
		case c == '\\':
			e.escaped = true
		case c == '"':
			e.inString = false
			e.closed = e.depth == 0
			return i
		}
	}
	return i
}

// structural is not 0 if one of the bytes is a quote, a bracket or a brace. It may be for other bytes, too.
func structural(w uint64) uint64 {
	quote := w ^ Low*'"'
	folded := w | Low*0x20 // a bracket becomes a brace
	opening, closing := folded^Low*'{', folded^Low*'}'
	return ((quote-Low)&^quote | (opening-Low)&^opening | (closing-Low)&^closing) & high
}

func (e *jsonEnd) end() JSONEnd {
	switch {
	case e.unclear:
		return JSONUnclear
	case e.closed:
		return JSONClosed
	}
	return JSONOpen
}
