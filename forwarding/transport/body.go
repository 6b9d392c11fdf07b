package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/net/http/httpguts"

	"colonnade/internal/ascii"
)

// body reads the body of a response piece by piece as it arrives, without copying. It returns io.EOF only at the end of a complete
// body. After netconn.ErrWouldBlock it goes on where it was.
type body struct {
	br       *bufio.Reader
	framing  framing
	left     int64 // bytes left of the chunk, or of the body
	held     int   // bytes of br that hold the last piece
	begun    bool  // a chunk has begun whose end was not read
	last     bool  // the last chunk has begun
	trailers int   // lines of the trailer
	done     bool
}

type framing uint8

const (
	framingNone framing = iota // no body
	framingLength
	framingChunked
	framingClose // until the connection ends, so a truncated body looks complete unless TLS shows it
)

func newBody(br *bufio.Reader, h *head) body {
	b := body{br: br}
	switch {
	case h.bodyless():
	case h.chunked:
		b.framing = framingChunked
	case h.length >= 0:
		b.framing, b.left = framingLength, h.length
	default:
		b.framing = framingClose
	}
	b.done = b.framing == framingNone || b.framing == framingLength && b.left == 0
	return b
}

// next returns the next piece, which is valid until the following call. After the last piece it returns io.EOF, and if the connection
// ended before, io.ErrUnexpectedEOF.
func (b *body) next() ([]byte, error) {
	_, _ = b.br.Discard(b.held)
	b.held = 0
	if b.done {
		return nil, io.EOF
	}
	if b.framing == framingChunked && b.left == 0 {
		if err := b.beginChunk(); err != nil || b.done {
			return nil, eofIfNil(err)
		}
	}
	if _, err := b.br.Peek(1); err != nil {
		if b.framing == framingClose && errors.Is(err, io.EOF) {
			b.done = true
			return nil, io.EOF
		}
		return nil, unexpected(err)
	}
	piece, _ := b.br.Peek(b.br.Buffered())
	if b.framing != framingClose {
		piece = piece[:min(int64(len(piece)), b.left)]
		b.left -= int64(len(piece))
		b.done = b.framing == framingLength && b.left == 0
	}
	b.held = len(piece)
	return piece, nil
}

// beginChunk reads the size line of the next chunk, and after the last chunk the trailer.
func (b *body) beginChunk() error {
	if b.begun {
		if line, err := b.line(); err != nil || len(line) != 0 {
			return b.malformed("chunk does not end in CRLF", err)
		}
		b.begun = false
	}
	if b.last {
		return b.endChunks()
	}
	line, err := b.line()
	if err != nil {
		return b.malformed("chunk size", err)
	}
	if b.left, err = parseChunkSize(line); err != nil {
		return err
	}
	b.begun, b.last = b.left > 0, b.left == 0
	if b.last {
		return b.endChunks()
	}
	return nil
}

// endChunks reads the trailer, whose lines are dropped.
func (b *body) endChunks() error {
	for ; b.trailers < maxInterim*8; b.trailers++ {
		line, err := b.line()
		if err != nil {
			return b.malformed("trailer", err)
		}
		if len(line) == 0 {
			b.done = true
			return nil
		}
		if name, value, ok := strings.Cut(string(line), ":"); !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return b.malformed("trailer", nil)
		}
	}
	return fmt.Errorf("%w: endless trailer", errMalformed)
}

// line reads a line, and returns it without its CRLF. With an error, it has read nothing.
func (b *body) line() ([]byte, error) {
	for searched := 0; ; {
		arrived, _ := b.br.Peek(b.br.Buffered())
		if i := bytes.IndexByte(arrived[searched:], '\n'); i >= 0 {
			line := arrived[:searched+i]
			_, _ = b.br.Discard(len(line) + 1)
			if before, ok := bytes.CutSuffix(line, []byte("\r")); ok {
				return before, nil
			}
			return nil, fmt.Errorf("%w: line without CR", errMalformed)
		}
		searched = len(arrived)
		if _, err := b.br.Peek(searched + 1); err != nil {
			return nil, unexpected(err)
		}
	}
}

func (b *body) malformed(what string, err error) error {
	if err == nil || errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("%w: %s", errMalformed, what)
	}
	return err
}

// parseChunkSize parses the size in hexadecimal digits, and ignores an extension.
func parseChunkSize(line []byte) (int64, error) {
	digits, extension, _ := bytes.Cut(line, []byte(";"))
	digits = bytes.TrimRight(digits, " \t")
	n, ok := ascii.ParseHex(digits)
	if !ok || ascii.HasControl(extension) {
		return 0, fmt.Errorf("%w: chunk size %.20q", errMalformed, digits)
	}
	return n, nil
}

func eofIfNil(err error) error {
	if err != nil {
		return err
	}
	return io.EOF
}

// unexpected replaces io.EOF by io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
