package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"colonnade/internal/ascii"

	"golang.org/x/net/http/httpguts"
)

// body yields an answer's body piece by piece, as it arrives and without copying, and knows whether the framing was
// complete: io.EOF comes only at an end that the other side meant.
type body struct {
	br      *bufio.Reader
	framing framing
	left    int64 // of the chunk, or of the whole body
	held    int   // bytes of br that the last piece still occupies
	chunks  int   // chunks begun
	done    bool
}

type framing uint8

const (
	framingNone framing = iota // no body
	framingLength
	framingChunked
	framingClose // until the connection ends: nobody can tell a cut from an end
)

func newBody(br *bufio.Reader, h *head) body {
	b := body{br: br}
	switch {
	case h.noBody():
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

// next returns the next piece, which is valid until the following call. After the last piece it returns io.EOF; if the
// connection ended before that, io.ErrUnexpectedEOF.
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

// beginChunk reads the line that begins a chunk, or the trailer and the body's end.
func (b *body) beginChunk() error {
	if b.chunks > 0 {
		if line, err := b.line(); err != nil || len(line) != 0 {
			return b.malformed("chunk is not ended by CRLF", err)
		}
	}
	b.chunks++
	line, err := b.line()
	if err != nil {
		return b.malformed("chunk size", err)
	}
	size, err := parseChunkSize(line)
	if err != nil {
		return err
	}
	if b.left = size; size > 0 {
		return nil
	}
	for range maxInterim * 8 { // trailer lines: dropped
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

// line reads one line without its CRLF.
func (b *body) line() ([]byte, error) {
	line, err := b.br.ReadSlice('\n')
	if err != nil {
		return nil, unexpected(err)
	}
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("%w: line without CR", errMalformed)
	}
	return line[:len(line)-2], nil
}

func (b *body) malformed(what string, err error) error {
	if err == nil || errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("%w: %s", errMalformed, what)
	}
	return err
}

// parseChunkSize reads hexadecimal digits, before an extension if there is one.
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

// unexpected says that an end was none.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
