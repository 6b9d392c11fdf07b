package httpguard

import (
	"bytes"

	"colonnade/internal/ascii"
)

// Framing follows the requests of one connection below a server's parser, and finds what a lenient parser accepts: lines that do
// not end in CRLF, and malformed chunks. Another server on the path might read such bytes as other requests. The rest of a head is
// for [CheckHead]; once that would refuse a head, Framing follows nothing more, since the connection ends with that request.
//
//	firstLine → header … ─┬→ body ──────────────────────────────────→ firstLine of the next request
//	                      ├→ chunkSize → chunk → chunkEnd → chunkSize
//	                      │      └→ trailer … ──────────────────────→ firstLine of the next request
//	                      └→ over: an ambiguous length, or an upgrade
//	any state → broken: a malformed line
//
// The zero value stands before the first request. It is for one goroutine.
type Framing struct {
	state     framingState
	left      int64 // bytes left of a body or a chunk
	chunked   bool
	length    int64
	final     bool // no request may follow on the connection
	ambiguous bool // CheckHead refuses the head

	partial []byte // the first maxFramingLine bytes of an unfinished line
	size    int    // bytes of the whole unfinished line
	cr      bool   // the unfinished line ends in CR
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
	framingOver // the rest of the connection is not followed
	framingBroken
)

// maxFramingLine is longer than any line that decides about framing.
const maxFramingLine = 128

// Advance takes the next bytes of the connection, and returns how many of them are well framed. If that is not all, nothing that
// follows is. The well-framed part stops before the LF of a malformed line, so that the parser above does not see the line's end.
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
				f.keep(p[done:])
				return len(p)
			}
			if !f.endLine(p[done : done+n]) {
				f.state, f.partial = framingBroken, nil
				return done + n // the parser above must see that something has arrived
			}
			done += n + 1
		}
	}
	return done
}

// Broken reports whether malformed bytes have arrived.
func (f *Framing) Broken() bool { return f.state == framingBroken }

// keep stores the beginning of a line whose end has not arrived.
func (f *Framing) keep(p []byte) {
	f.size += len(p)
	f.cr = p[len(p)-1] == '\r'
	f.partial = append(f.partial, p[:min(len(p), maxFramingLine-len(f.partial))]...)
}

// endLine takes the rest of a line, without its LF.
func (f *Framing) endLine(p []byte) bool {
	if f.size > 0 {
		if len(p) > 0 {
			f.keep(p)
		}
		line := f.partial
		if f.cr && len(line) == f.size {
			line = line[:len(line)-1]
		}
		ok, truncated := f.cr, f.size > maxFramingLine
		f.partial, f.size, f.cr = f.partial[:0], 0, false
		return ok && f.line(line, truncated)
	}
	if len(p) == 0 || p[len(p)-1] != '\r' {
		return false
	}
	return f.line(p[:len(p)-1], len(p) > maxFramingLine)
}

// line takes a line without its CRLF. A long line may be truncated.
func (f *Framing) line(line []byte, long bool) bool {
	switch f.state {
	case framingFirstLine:
		if len(line) > 0 { // RFC 9112, section 2.2, allows empty lines before it
			f.state = framingHeader
		}
	case framingHeader:
		if len(line) == 0 {
			f.afterHead()
		} else {
			return f.header(line, long)
		}
	case framingChunkSize:
		return !long && f.chunkSize(line)
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

// header takes a header line. A line that decides about the length of the body must not be long, even if white space makes it so,
// since it may be truncated.
func (f *Framing) header(line []byte, long bool) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch len(name) {
	case len("content-length"):
		if ascii.EqualFold(name, "content-length") {
			n, ok := ascii.ParseUint(ascii.TrimSpace(value))
			f.ambiguous = f.ambiguous || !ok || f.chunked || f.length > 0
			f.length = int64(n)
			return !long
		}
	case len("transfer-encoding"):
		if ascii.EqualFold(name, "transfer-encoding") {
			f.ambiguous = f.ambiguous || f.chunked || f.length > 0 || string(ascii.TrimSpace(value)) != "chunked"
			f.chunked = true
			return !long
		}
	case len("upgrade"):
		f.final = f.final || ascii.EqualFold(name, "upgrade")
	}
	return true
}

func (f *Framing) afterHead() {
	switch {
	case f.ambiguous:
		f.state = framingOver
	case f.chunked:
		f.state = framingChunkSize
	case f.length > 0:
		f.state, f.left = framingBody, f.length
	default:
		f.afterContent()
	}
}

// afterContent sets the state after a chunk's content, or after a request.
func (f *Framing) afterContent() {
	switch {
	case f.state == framingChunk:
		f.state = framingChunkEnd
	case f.final:
		f.state = framingOver
	default:
		*f = Framing{partial: f.partial}
	}
}

// chunkSize takes the line before a chunk: its size, and an extension, which is ignored.
func (f *Framing) chunkSize(line []byte) bool {
	digits, extension, _ := bytes.Cut(line, []byte(";"))
	size, ok := ascii.ParseHex(digits)
	if !ok || len(digits) > maxChunkDigits || ascii.HasControl(extension) {
		return false
	}
	f.left, f.state = size, framingChunk
	if size == 0 {
		f.state = framingTrailer
	}
	return true
}

// maxChunkDigits bounds the size of a chunk with its leading zeros: a parser that counts them may overflow.
const maxChunkDigits = 15
