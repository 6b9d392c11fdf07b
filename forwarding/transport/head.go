package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"colonnade/forwarding/hop"

	"golang.org/x/net/http/httpguts"
)

// errMalformed wraps every answer that breaks HTTP's framing. Its connection is never used again.
var errMalformed = errors.New("malformed answer")

// head is an answer's status line and header lines, checked strictly: an answer that two parsers could read in two ways
// is refused.
type head struct {
	status  int
	length  int64 // -1 where not given
	chunked bool
	close   bool   // the connection ends with this answer
	keep    bool   // it says that it does not, which HTTP/1.0 must
	encoded bool   // the body is compressed, or the like
	lines   string // header lines, each ended by CRLF
}

// readHead reads one head, and passes over interim (1xx) answers. The error is io.EOF if not a byte came.
func readHead(br *bufio.Reader) (head, error) { return readHeadWithProgress(br, nil) }

// readHeadWithProgress is readHead, and gives tell what the interim answers of a node of ours say.
func readHeadWithProgress(br *bufio.Reader, tell func(hop.Progress)) (head, error) {
	passed := interimLimiter{onProgress: tell}
	if tell != nil {
		passed.began = time.Now()
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
		if err := passed.add(&h, size); err != nil {
			return head{}, err
		}
	}
}

// peekHead waits until a whole head, ended by an empty line, is in the buffer.
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

// parseHead reads a whole head, with its empty line.
func parseHead(raw string) (head, error) {
	line, lines, _ := strings.Cut(raw, "\r\n")
	h := head{length: -1, lines: strings.TrimSuffix(lines, "\r\n")}
	// "HTTP/1.1 200 OK"; the phrase may be missing.
	if len(line) < 12 || line[:7] != "HTTP/1." || (line[7] != '0' && line[7] != '1') || line[8] != ' ' || (len(line) > 12 && line[12] != ' ') {
		return head{}, fmt.Errorf("%w: status line %.40q", errMalformed, line)
	}
	status, err := strconv.ParseUint(line[9:12], 10, 16)
	if err != nil || status < 100 || status > 599 || !httpguts.ValidHeaderFieldValue(line[12:]) {
		return head{}, fmt.Errorf("%w: status line %.40q", errMalformed, line)
	}
	h.status = int(status)
	for field, rest := "", h.lines; rest != ""; {
		field, rest, _ = strings.Cut(rest, "\r\n")
		if err := h.addLine(field); err != nil {
			return head{}, err
		}
	}
	old := line[7] == '0'
	h.close = h.close || old && !h.keep
	return h, h.checkFraming(old)
}

// checkFraming refuses what says in two ways where the answer ends, or in a way that one of two parsers passes over.
func (h *head) checkFraming(old bool) error {
	switch {
	case h.chunked && h.length >= 0:
		return fmt.Errorf("%w: both content-length and transfer-encoding", errMalformed)
	case h.chunked && old:
		return fmt.Errorf("%w: transfer-encoding in HTTP/1.0", errMalformed)
	case (h.status < 200 || h.status == 204) && (h.chunked || h.length > 0):
		return fmt.Errorf("%w: status %d with a body", errMalformed, h.status)
	case h.status == 304:
		h.close = true // it has the length of what it does not send, and was not asked for
	}
	return nil
}

func (h *head) addLine(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return fmt.Errorf("%w: header line %.40q", errMalformed, line)
	}
	value = strings.Trim(value, " \t")
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
		h.encoded = h.encoded || value != "" && !strings.EqualFold(value, "identity")
	case strings.EqualFold(name, "connection"):
		h.close = h.close || hasOption(value, "close")
		h.keep = h.keep || hasOption(value, "keep-alive")
	}
	return nil
}

// get returns the first value of a header, or nothing.
func (h *head) get(name string) string {
	for line := range strings.SplitSeq(h.lines, "\r\n") {
		if len(line) > len(name) && line[len(name)] == ':' && strings.EqualFold(line[:len(name)], name) {
			return strings.Trim(line[len(name)+1:], " \t")
		}
	}
	return ""
}

// noBody tells the answers that end with their head.
func (h *head) noBody() bool {
	return h.status == 204 || h.status == 304 || h.status == 101
}
