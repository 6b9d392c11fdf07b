package forwardtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/link"
)

// LinkRequest is a request for a link. Its lines end in fields, each with its CRLF.
func LinkRequest(fields string) string {
	return "GET " + hop.PathLink + " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: " + hop.UpgradeLink + "\r\n" + fields + "\r\n"
}

// OpenLink asks for a link on a connection to a server, and returns it. It ends with the test at the latest.
func OpenLink(t testing.TB, c net.Conn, fields string) *link.Link {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(Patience))
	if _, err := io.WriteString(c, LinkRequest(fields)); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(c)
	answer, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Upgrade") != hop.UpgradeLink || br.Buffered() > 0 {
		t.Fatalf("asking for a link: status %d, header %v, and %d bytes after them", answer.StatusCode, answer.Header, br.Buffered())
	}
	_ = c.SetDeadline(time.Time{})
	l, ended := link.New(link.Config{Conn: c}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = l.Run()
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return l
}

// OpenStream sends a request on a new stream of a link, and nothing after it. A server that resets the stream may have answered before it has read the whole
// request.
func OpenStream(t testing.TB, l *link.Link, request string) *link.Stream {
	t.Helper()
	s := l.NewStream()
	if err := s.Open([]byte(request), true); err != nil && !errors.Is(err, link.ErrReset) {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	_ = s.SetDeadline(time.Now().Add(Patience))
	return s
}

// ReadStream reads the response of a stream to its end, and closes it.
func ReadStream(s *link.Stream) (*http.Response, []byte, error) {
	defer func() { _ = s.Close() }()
	br := bufio.NewReader(s)
	answer, err := http.ReadResponse(br, nil)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil {
		if rest, after := io.ReadAll(br); len(rest) > 0 || after != nil {
			err = fmt.Errorf("after the response: %q, %w", rest, after)
		}
	}
	return answer, body, err
}

// WithBinaryHead returns a request in text as a request with a binary head.
func WithBinaryHead(t testing.TB, wire []byte) []byte {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(wire)))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	b := hop.BeginRequestHead(nil, r.Method, r.RequestURI, len(body))
	for name, values := range r.Header {
		b = hop.AppendHeadField(b, name, values[0])
	}
	if err := hop.EndRequestHead(b); err != nil {
		t.Fatal(err)
	}
	return append(b, body...)
}

// ReadBinaryAnswer reads an answer with a binary head from a stream to its end, and closes the stream.
func ReadBinaryAnswer(s *link.Stream) (h hop.AnswerHead, body []byte, err error) {
	defer func() { _ = s.Close() }()
	br := bufio.NewReaderSize(s, hop.MaxBinaryHead)
	head, err := ReadBinaryHead(br)
	if err != nil {
		return h, nil, err
	}
	if h, err = hop.ParseAnswerHead(head); err != nil {
		return h, nil, err
	}
	body, err = readBody(br, h.Length)
	if rest, after := io.ReadAll(br); err == nil && (len(rest) > 0 || after != nil) {
		err = fmt.Errorf("after the answer: %q, %w", rest, after)
	}
	return h, body, err
}

// ReadBinaryHead reads the bytes of a binary head.
func ReadBinaryHead(br *bufio.Reader) ([]byte, error) {
	start, err := br.Peek(hop.BinaryHeadStart)
	if err != nil {
		return nil, err
	}
	size, err := hop.BinaryHeadSize(start)
	if err != nil {
		return nil, err
	}
	head := make([]byte, size)
	_, err = io.ReadFull(br, head)
	return head, err
}

func readBody(br *bufio.Reader, length int64) ([]byte, error) {
	if length < 0 {
		body, err := io.ReadAll(httputil.NewChunkedReader(br))
		if err == nil {
			_, err = br.Discard(len("\r\n")) // behind the last chunk
		}
		return body, err
	}
	body := make([]byte, length)
	n, err := io.ReadFull(br, body)
	return body[:n], err
}
