package forwardtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
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

// OpenStream sends a request on a new stream of a link, and nothing after it.
func OpenStream(t testing.TB, l *link.Link, request string) *link.Stream {
	t.Helper()
	s, err := l.Open([]byte(request), true)
	if err != nil {
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
