package transport

import (
	"bufio"
	"errors"
	"fmt"

	"colonnade/forwarding/hop"
)

// Bytes that a server sends while no request waits for an answer are out of turn: they must not become the answer to the next request. A
// connection is checked for such bytes after each response ([Response.finish]), and a kept one also right before a request is written, and
// before the last byte of a long request ([conn.write]). No check finds an answer that is late enough to arrive during the next request. So a
// connection passes from one account to another only after handoverSilence, and no connection is kept to a server that has sent such bytes.

var (
	// errStale is returned if a kept connection cannot be used, and the server cannot have received the whole request.
	errStale = errors.New("kept connection cannot be used any more")
	// errOutOfTurn is an errStale: the server has sent something while no request waited for an answer.
	errOutOfTurn = fmt.Errorf("%w: the server has sent something out of turn", errStale)
	// errPartlySent is an errStale: the server may have a part of the request.
	errPartlySent = fmt.Errorf("%w: the request was sent in part", errStale)
)

// checkTurn returns an error if the connection, on which no answer is due, cannot be used for the next request. sent is the number of bytes
// of that request that the server may have. checkTurn reads and ignores empty lines.
func (c *conn) checkTurn(sent int64) error {
	for range 2 { // behind empty lines, the connection may have ended
		unread, err := c.Unread()
		if err != nil {
			return fmt.Errorf("%w: %w", errStale, err)
		}
		if len(unread) == 0 {
			return nil
		}
		if err := checkUnread(unread, sent); err != nil {
			return err
		}
		if err := c.Skip(len(unread)); err != nil {
			return fmt.Errorf("%w: %w", errStale, err)
		}
	}
	return errStale
}

// checkUnread returns an error unless p, which arrived while no answer was due, is only a few empty lines.
func checkUnread(p []byte, sent int64) error {
	empty := emptyLines(p)
	switch {
	case empty == len(p) && empty < maxEmptyLines:
		return nil
	case empty == len(p) || refusesEarly(p[empty:], sent):
		return errStale
	}
	return errOutOfTurn
}

// maxEmptyLines is how many bytes of empty lines may come before a response.
const maxEmptyLines = 32

// emptyLines returns how many bytes of p are empty lines at its begin. Servers that end an answer with a CRLF too many are common
// enough for RFC 9112, section 2.2, to make servers tolerate the same of clients.
func emptyLines(p []byte) int {
	for i, b := range p {
		if b != '\r' && b != '\n' {
			return i
		}
	}
	return len(p)
}

// readHead reads the head of a response. On a kept connection, empty lines may come before it.
func (c *conn) readHead(onProgress func(hop.Progress)) (head, error) {
	if err := c.unanswered; err != nil {
		c.unanswered = nil
		return head{}, err
	}
	if c.binaryHead {
		return readBinaryHead(c.br)
	}
	if c.kept {
		if err := skipEmptyLines(c.br); err != nil {
			return head{}, err
		}
	}
	return readHeadWithProgress(c.br, onProgress)
}

// skipEmptyLines waits for the first byte of a response, and discards empty lines before it.
func skipEmptyLines(br *bufio.Reader) error {
	for range maxEmptyLines {
		first, err := br.Peek(1)
		if err != nil {
			return err
		}
		if emptyLines(first) == 0 {
			return nil
		}
		_, _ = br.Discard(1)
	}
	return nil
}

// refusesEarly reports whether p begins a response that a server may send although it does not have the whole request: 408 when it
// closes an idle connection, or any error once it has some of the request.
func refusesEarly(p []byte, sent int64) bool {
	if len(p) < 12 || string(p[:7]) != "HTTP/1." || p[8] != ' ' {
		return false
	}
	return string(p[9:12]) == "408" || sent > 0 && (p[9] == '4' || p[9] == '5')
}
