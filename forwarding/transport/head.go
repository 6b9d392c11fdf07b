package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"colonnade/forwarding/hop"
)

// errMalformed is wrapped by the errors of responses that are not well-formed HTTP/1.1, or have a malformed binary head. Their connections are closed.
var errMalformed = errors.New("malformed response")

// head is the status line and the header lines of a response. It is checked strictly: a response that two parsers could read
// differently is malformed.
type head struct {
	status  int
	length  int64 // -1 where not given
	chunked bool
	close   bool                   // the connection ends with this response
	keep    bool                   // the connection persists, which HTTP/1.0 must state
	encoded bool                   // the body has a content coding
	lines   string                 // header lines, each ended by CRLF
	binary  hop.HeadFields[string] // instead of lines, of an answer with a binary head
}

// readHead reads the head of the final response. The error is io.EOF if the connection ended before the first byte.
func readHead(br *bufio.Reader) (head, error) { return readHeadWithProgress(br, nil) }

// readHeadWithProgress is readHead, and calls onProgress with the progress in interim responses.
func readHeadWithProgress(br *bufio.Reader, onProgress func(hop.Progress)) (head, error) {
	interim := interimLimiter{onProgress: onProgress}
	if onProgress != nil {
		interim.began = time.Now()
	}
	for {
		raw, err := peekHead(br)
		if err != nil {
			return head{}, err
		}
		h, err := parseHead(string(raw))
		if err != nil {
			return head{}, err
		}
		size := len(raw)
		_, _ = br.Discard(size)
		if h.status >= 200 || h.status == 101 {
			return h, nil
		}
		if err := interim.add(&h, size); err != nil {
			return head{}, err
		}
	}
}

// readBinaryHead is readHead for the answer to a request with a binary head.
func readBinaryHead(br *bufio.Reader) (head, error) {
	start, err := br.Peek(hop.BinaryHeadStart)
	if err != nil && len(start) > 0 {
		return head{}, unexpected(err)
	}
	if err != nil {
		return head{}, err
	}
	size, err := hop.BinaryHeadSize(start)
	if err != nil {
		return head{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	raw, err := br.Peek(size)
	if err != nil {
		return head{}, unexpected(err)
	}
	answer, err := hop.ParseAnswerHead(raw)
	if err != nil {
		return head{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	_, _ = br.Discard(size)
	h := head{status: answer.Status, length: answer.Length, chunked: answer.Length < 0, close: true, binary: answer.Fields}
	h.encoded = isEncoding(answer.Fields.Get("content-encoding"))
	return h, h.checkFraming(false)
}

// isEncoding reports whether the value of Content-Encoding names a content coding.
func isEncoding(value string) bool { return value != "" && !strings.EqualFold(value, "identity") }

// peekHead returns a head with its empty line, once all of it is in the buffer.
func peekHead(br *bufio.Reader) ([]byte, error) {
	for want, seen := 1, 0; ; {
		_, err := br.Peek(want)
		buf, _ := br.Peek(br.Buffered())
		if i := bytes.Index(buf[max(0, seen-3):], []byte("\r\n\r\n")); i >= 0 {
			return buf[:max(0, seen-3)+i+4], nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull) || len(buf) == br.Size():
			return nil, fmt.Errorf("%w: head over %d bytes", errMalformed, br.Size())
		case errors.Is(err, io.EOF) && len(buf) > 0:
			return nil, fmt.Errorf("%w: head cut after %d bytes", errMalformed, len(buf))
		case err != nil:
			return nil, err
		}
		seen, want = len(buf), len(buf)+1
	}
}

// parseHead parses a head with its empty line.
func parseHead(raw string) (head, error) {
	line, lines, _ := strings.Cut(raw, "\r\n")
	h := head{length: -1, lines: strings.TrimSuffix(lines, "\r\n")}
	// "HTTP/1.1 200 OK"; the reason phrase may be missing.
	if len(line) < 12 || line[:7] != "HTTP/1." || (line[7] != '0' && line[7] != '1') || line[8] != ' ' || (len(line) > 12 && line[12] != ' ') {
		return head{}, fmt.Errorf("%w: status line %.40q", errMalformed, line)
	}
	status, err := strconv.ParseUint(line[9:12], 10, 16)
	if err != nil || status < 100 || status > 599 || !httpguts.ValidHeaderFieldValue(line[12:]) {
		return head{}, fmt.Errorf("%w: status line %.40q", errMalformed, line)
	}
	h.status = int(status)
	for field, rest := "", h.lines; rest != ""; {
		field, rest = cutLine(rest)
		if err := h.addLine(field); err != nil {
			return head{}, err
		}
	}
	http10 := line[7] == '0'
	h.close = h.close || http10 && !h.keep
	return h, h.checkFraming(http10)
}

// checkFraming returns an error if parsers could differ in where the response ends.
func (h *head) checkFraming(http10 bool) error {
	switch {
	case h.chunked && h.length >= 0:
		return fmt.Errorf("%w: both content-length and transfer-encoding", errMalformed)
	case h.chunked && http10:
		return fmt.Errorf("%w: transfer-encoding in HTTP/1.0", errMalformed)
	case (h.status < 200 || h.status == 204) && (h.chunked || h.length > 0):
		return fmt.Errorf("%w: status %d with a body", errMalformed, h.status)
	case h.status == 304:
		h.close = true // its length is that of a body that is not sent; and nothing here makes conditional requests
	}
	return nil
}

func (h *head) addLine(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return fmt.Errorf("%w: header line %.40q", errMalformed, line)
	}
	value = textproto.TrimString(value)
	switch {
	case strings.EqualFold(name, "content-length"):
		n, err := strconv.ParseUint(value, 10, 62)
		if err != nil || h.length >= 0 {
			return fmt.Errorf("%w: content-length %.40q", errMalformed, value)
		}
		h.length = int64(n)
	case strings.EqualFold(name, "transfer-encoding"):
		if !strings.EqualFold(value, "chunked") || h.chunked {
			return fmt.Errorf("%w: transfer-encoding %.40q", errMalformed, value)
		}
		h.chunked = true
	case strings.EqualFold(name, "content-encoding"):
		h.encoded = h.encoded || isEncoding(value)
	case strings.EqualFold(name, "connection"):
		h.close = h.close || hasOption(value, "close")
		h.keep = h.keep || hasOption(value, "keep-alive")
	}
	return nil
}

// cutLine returns what is before the first CRLF, and what is after it. It looks for one byte, since looking for two takes twice as long.
func cutLine(s string) (line, rest string) {
	if i := strings.IndexByte(s, '\n'); i > 0 && s[i-1] == '\r' {
		return s[:i-1], s[i+1:]
	}
	line, rest, _ = strings.Cut(s, "\r\n")
	return line, rest
}

// get returns the first value of a header, or "".
func (h *head) get(name string) string {
	if h.lines == "" {
		return h.binary.Get(name)
	}
	for line, rest := "", h.lines; rest != ""; {
		line, rest = cutLine(rest)
		if len(line) > len(name) && line[len(name)] == ':' && strings.EqualFold(line[:len(name)], name) {
			return textproto.TrimString(line[len(name)+1:])
		}
	}
	return ""
}

// bodyless reports whether the response ends with its head.
func (h *head) bodyless() bool {
	return h.status == 204 || h.status == 304 || h.status == 101
}
