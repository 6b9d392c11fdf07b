package httpguard

import (
	"bytes"

	"colonnade/internal/ascii"
	"colonnade/openai"
)

// Framing follows requests as they come over one connection, below a server's
// parser, and finds what that passes over: lines that do not end in CRLF, chunks
// that are not written as they must be. Another server on the way might read it
// otherwise, and see other requests than we do. The rest of a head is for
// [CheckHead]; of one that it refuses, Framing follows nothing, as its
// connection ends. The zero value stands before a first request.
type Framing struct {
	state   framingState
	left    int64 // of a body, or of a chunk
	chunked bool
	length  int64
	last    bool // nothing behind the request is one
	unclear bool // the head is refused

	begun []byte // a line's beginning that has come, at most maxFramingLine of it
	size  int    // of all of it that has come
	cr    bool   // it ends in one
}

type framingState uint8

const (
	framingFirstLine framingState = iota
	framingHeader
	framingBody
	framingChunkSize
	framingChunk
	framingChunkEnd
	framingTrailer
	framingOver // what comes is no request's
	framingBroken
)

// maxFramingLine is longer than any line that matters to a framing.
const maxFramingLine = 128

// Advance takes what has come, and returns how much of it is well framed. If that is
// not all, nothing that comes later is. What passes stops before the LF of a bad
// line, so that the parser above sees no end.
func (f *Framing) Advance(p []byte) int {
	done := 0
	for done < len(p) {
		switch f.state {
		case framingOver:
			return len(p)
		case framingBroken:
			return done
		case framingBody, framingChunk:
			n := int(min(int64(len(p)-done), f.left))
			done += n
			if f.left -= int64(n); f.left == 0 {
				f.afterContent()
			}
		default:
			n := bytes.IndexByte(p[done:], '\n')
			if n < 0 {
				f.begin(p[done:])
				return len(p)
			}
			if !f.line(p[done : done+n]) {
				f.state, f.begun = framingBroken, nil
				return done + n // the parser above must see that something has come
			}
			done += n + 1
		}
	}
	return done
}

// Broken reports whether something came that was not well framed.
func (f *Framing) Broken() bool { return f.state == framingBroken }

// begin keeps the beginning of a line whose end has not come.
func (f *Framing) begin(p []byte) {
	f.size += len(p)
	f.cr = p[len(p)-1] == '\r'
	f.begun = append(f.begun, p[:min(len(p), maxFramingLine-len(f.begun))]...)
}

// line takes a line's end, without its LF, and with it the line.
func (f *Framing) line(p []byte) bool {
	if f.size > 0 {
		if len(p) > 0 {
			f.begin(p)
		}
		whole := f.begun
		if f.cr && len(whole) == f.size {
			whole = whole[:len(whole)-1]
		}
		ok, long := f.cr, f.size > maxFramingLine
		f.begun, f.size, f.cr = f.begun[:0], 0, false
		return ok && f.take(whole, long)
	}
	if len(p) == 0 || p[len(p)-1] != '\r' {
		return false
	}
	return f.take(p[:len(p)-1], len(p) > maxFramingLine)
}

// take takes a line without its CRLF. Of one that is long there may be only the
// beginning.
func (f *Framing) take(line []byte, long bool) bool {
	switch f.state {
	case framingFirstLine:
		if len(line) > 0 { // empty ones may stand before it (RFC 9112, section 2.2)
			f.state = framingHeader
		}
	case framingHeader:
		if len(line) == 0 {
			f.afterHead()
		} else {
			return f.header(line, long)
		}
	case framingChunkSize:
		return !long && f.chunk(line)
	case framingChunkEnd:
		f.state = framingChunkSize
		return len(line) == 0
	case framingTrailer:
		if len(line) == 0 {
			f.afterContent()
		}
	}
	return true
}

// header takes a header line. One that says how long the body is must be short
// enough to be seen: white space is no reason to lose sight of what follows.
func (f *Framing) header(line []byte, long bool) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch len(name) {
	case len("content-length"):
		if ascii.EqualFold(name, "content-length") {
			n, ok := ascii.ParseUint(ascii.TrimSpace(value))
			f.unclear = f.unclear || !ok || f.chunked || f.length > 0
			f.length = int64(n)
			return !long
		}
	case len("transfer-encoding"):
		if ascii.EqualFold(name, "transfer-encoding") {
			f.unclear = f.unclear || f.chunked || f.length > 0 || string(ascii.TrimSpace(value)) != "chunked"
			f.chunked = true
			return !long
		}
	case len("upgrade"):
		f.last = f.last || ascii.EqualFold(name, "upgrade")
	}
	return true
}

func (f *Framing) afterHead() {
	switch {
	case f.unclear:
		f.state = framingOver
	case f.chunked:
		f.state = framingChunkSize
	case f.length > 0:
		f.state, f.left = framingBody, f.length
	default:
		f.afterContent()
	}
}

// afterContent goes on behind a body, or behind one chunk's content.
func (f *Framing) afterContent() {
	switch {
	case f.state == framingChunk:
		f.state = framingChunkEnd
	case f.last:
		f.state = framingOver
	default:
		*f = Framing{begun: f.begun}
	}
}

// chunk reads the line before a chunk: its size, and an extension that is passed
// over unless it has what lines do not have.
func (f *Framing) chunk(line []byte) bool {
	digits, extension, _ := bytes.Cut(line, []byte(";"))
	if len(digits) == 0 || len(digits) > 15 || ascii.HasControl(extension) {
		return false
	}
	f.left = 0
	for _, c := range digits {
		d, ok := openai.HexDigit(c)
		if !ok {
			return false
		}
		f.left = f.left<<4 | int64(d)
	}
	if f.state = framingChunk; f.left == 0 {
		f.state = framingTrailer
	}
	return true
}
