package wiretest

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/internal/testkit"
)

// Conn is a client's connection, on which the test writes and reads the bytes itself.
type Conn struct {
	*net.TCPConn
	T testing.TB
	R *bufio.Reader // of the connection; each read has testkit.Timeout
}

// Dial connects to a listener. The connection is closed at the end of the test.
func Dial(t testing.TB, address string) *Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return NewConn(t, c)
}

// NewConn makes a Conn of a TCP connection, and closes it at the end of the test.
func NewConn(t testing.TB, c net.Conn) *Conn {
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(testkit.Timeout))
	return &Conn{TCPConn: c.(*net.TCPConn), T: t, R: bufio.NewReader(patientReader{c})}
}

// patientReader waits testkit.Timeout for each piece, since a stream may take long on a busy machine.
type patientReader struct{ net.Conn }

func (p patientReader) Read(b []byte) (int, error) {
	_ = p.SetReadDeadline(time.Now().Add(testkit.Timeout))
	return p.Conn.Read(b)
}

// Post sends a request with a JSON body. lines are further header lines.
func (c *Conn) Post(path, body string, lines ...string) {
	c.T.Helper()
	c.Send("POST "+path+" HTTP/1.1", append([]string{"Host: fleet", "Content-Type: application/json",
		"Content-Length: " + strconv.Itoa(len(body))}, lines...), body)
}

// Send sends a request line, header lines, an empty line, and what follows.
func (c *Conn) Send(first string, lines []string, rest string) {
	c.T.Helper()
	if _, err := io.WriteString(c, first+"\r\n"+strings.Join(lines, "\r\n")+"\r\n\r\n"+rest); err != nil {
		c.T.Errorf("cannot send: %v", err)
	}
}

// Handshake opens a WebSocket, whose frames the test writes and reads itself. lines are further header lines.
func Handshake(t testing.TB, address, target string, lines ...string) *Conn {
	t.Helper()
	c := SendHandshake(t, address, target, lines...)
	var r Response
	if err := c.ReadHead(&r); err != nil || r.Status != http.StatusSwitchingProtocols {
		t.Fatalf("the handshake was answered with %d, %v", r.Status, err)
	}
	if agreed := r.Header.Get("Sec-WebSocket-Extensions"); agreed != "" {
		t.Errorf("the extension %q was agreed on", agreed)
	}
	return c
}

// SendHandshake sends the handshake of a WebSocket, and reads nothing.
func SendHandshake(t testing.TB, address, target string, lines ...string) *Conn {
	t.Helper()
	c := Dial(t, address)
	var key [16]byte
	_, _ = rand.Read(key[:])
	c.Send("GET "+target+" HTTP/1.1", append([]string{"Host: fleet", "Upgrade: websocket", "Connection: Upgrade",
		"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + base64.StdEncoding.EncodeToString(key[:])}, lines...), "")
	return c
}

// Read reads one response, to its end or to that of the connection.
func (c *Conn) Read() (r Response) {
	r.Err = func() error {
		if err := c.ReadHead(&r); err != nil {
			return err
		}
		if r.Header.Get("Transfer-Encoding") == "chunked" {
			return c.readChunks(&r)
		}
		if r.Header.Get("Content-Length") == "" && r.Header.Get("Connection") == "close" {
			return c.readToClose(&r)
		}
		length, err := strconv.Atoi(r.Header.Get("Content-Length"))
		if err != nil {
			return err
		}
		body := make([]byte, length)
		n, err := io.ReadFull(c.R, body)
		r.Body = string(body[:n])
		return err
	}()
	return r
}

// ReadHead reads the status line and the header of a response.
func (c *Conn) ReadHead(r *Response) error {
	head := textproto.NewReader(c.R)
	line, err := head.ReadLine()
	if err != nil {
		return err
	}
	status, _, _ := strings.Cut(strings.TrimPrefix(line, "HTTP/1.1 "), " ")
	if r.Status, err = strconv.Atoi(status); err != nil {
		return err
	}
	fields, err := head.ReadMIMEHeader()
	r.Header = http.Header(fields)
	return err
}

// readToClose reads a body that ends with its connection. A connection that is reset ends none.
func (c *Conn) readToClose(r *Response) error {
	r.CloseDelimited = true
	body, err := io.ReadAll(c.R)
	r.Body = string(body)
	return err
}

func (c *Conn) readChunks(r *Response) error {
	var body strings.Builder
	defer func() { r.Body = body.String() }()
	for {
		line, err := c.R.ReadString('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(strings.TrimSuffix(line, "\r\n"), 16, 32)
		if err != nil {
			return err
		}
		chunk := make([]byte, size+2)
		n, err := io.ReadFull(c.R, chunk)
		body.Write(chunk[:min(n, int(size))])
		if err != nil || size == 0 {
			return err
		}
	}
}

// ReadUntil reads until what came contains want so many times.
func (c *Conn) ReadUntil(want string, times int) {
	c.T.Helper()
	var got strings.Builder
	piece := make([]byte, 4<<10)
	for strings.Count(got.String(), want) < times {
		n, err := c.R.Read(piece)
		got.Write(piece[:n])
		if err != nil {
			c.T.Fatalf("after %.300q: %v", got.String(), err)
		}
	}
}

// ReadChunked reads the rest of a chunked response, with its framing.
func (c *Conn) ReadChunked() (string, error) {
	var got strings.Builder
	piece := make([]byte, 4<<10)
	for !strings.HasSuffix(got.String(), "\r\n0\r\n\r\n") {
		n, err := c.R.Read(piece)
		got.Write(piece[:n])
		if err != nil {
			return got.String(), err
		}
	}
	return got.String(), nil
}

// ExpectProperEnd reads a stream, which must end as its API's streams do.
func (c *Conn) ExpectProperEnd() {
	c.T.Helper()
	if r := c.Read(); r.Status != 200 || r.Err != nil || !r.Complete() {
		c.T.Errorf("a stream ended with %d %v %.300q", r.Status, r.Err, r.Body[max(0, len(r.Body)-300):])
	}
}

// End reads until the connection ends and says how: "closed", "reset", "more: " and the bytes that came, or an error.
func (c *Conn) End() string {
	rest, err := io.ReadAll(c.R)
	switch {
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	case err != nil:
		return err.Error()
	case len(rest) > 0:
		return "more: " + strconv.Quote(string(rest[:min(len(rest), 200)]))
	}
	return "closed"
}

// Leave ends the connection in one of two ways: an odd n closes it, an even n resets it, as the kernel does for a process
// that was killed.
func (c *Conn) Leave(n int) {
	if n%2 == 0 {
		_ = c.SetLinger(0)
	}
	_ = c.Close()
}
