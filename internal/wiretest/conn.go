package wiretest

import (
	"bufio"
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

// Conn is a client's bare connection: these tests look at what net/http hides.
type Conn struct {
	*net.TCPConn
	T testing.TB
	R *bufio.Reader
}

// Dial connects to a listener of the fleet, until the test's end.
func Dial(t testing.TB, address string) *Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return NewConn(t, c)
}

func NewConn(t testing.TB, c net.Conn) *Conn {
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(testkit.Patience))
	return &Conn{TCPConn: c.(*net.TCPConn), T: t, R: bufio.NewReader(patient{c})}
}

// patient waits for each piece that it reads as long as any test does: on a busy machine a stream may take its time.
type patient struct{ net.Conn }

func (p patient) Read(b []byte) (int, error) {
	_ = p.SetReadDeadline(time.Now().Add(testkit.Patience))
	return p.Conn.Read(b)
}

// Post sends a request with a JSON body, and more header lines.
func (w *Conn) Post(path, body string, lines ...string) {
	w.T.Helper()
	w.Send("POST "+path+" HTTP/1.1", append([]string{"Host: fleet", "Content-Type: application/json",
		"Content-Length: " + strconv.Itoa(len(body))}, lines...), body)
}

func (w *Conn) Send(first string, lines []string, rest string) {
	w.T.Helper()
	if _, err := io.WriteString(w, first+"\r\n"+strings.Join(lines, "\r\n")+"\r\n\r\n"+rest); err != nil {
		w.T.Errorf("cannot send: %v", err)
	}
}

// Read reads one answer, to its end or to that of the connection.
func (w *Conn) Read() (a RawResponse) {
	a.Err = func() error {
		if err := w.ReadHead(&a); err != nil {
			return err
		}
		if a.Header.Get("Transfer-Encoding") == "chunked" {
			return w.readChunks(&a)
		}
		length, err := strconv.Atoi(a.Header.Get("Content-Length"))
		if err != nil {
			return err
		}
		body := make([]byte, length)
		n, err := io.ReadFull(w.R, body)
		a.Body = string(body[:n])
		return err
	}()
	return a
}

func (w *Conn) ReadHead(a *RawResponse) error {
	head := textproto.NewReader(w.R)
	line, err := head.ReadLine()
	if err != nil {
		return err
	}
	status, _, _ := strings.Cut(strings.TrimPrefix(line, "HTTP/1.1 "), " ")
	if a.Status, err = strconv.Atoi(status); err != nil {
		return err
	}
	fields, err := head.ReadMIMEHeader()
	a.Header = http.Header(fields)
	return err
}

func (w *Conn) readChunks(a *RawResponse) error {
	var body strings.Builder
	defer func() { a.Body = body.String() }()
	for {
		line, err := w.R.ReadString('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(strings.TrimSuffix(line, "\r\n"), 16, 32)
		if err != nil {
			return err
		}
		chunk := make([]byte, size+2)
		n, err := io.ReadFull(w.R, chunk)
		chunk = chunk[:min(n, int(size))]
		body.Write(chunk)
		if err != nil || size == 0 {
			return err
		}
		a.chunks = append(a.chunks, string(chunk))
	}
}

// End reads until the connection ends, and says how.
func (w *Conn) End() string {
	rest, err := io.ReadAll(w.R)
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

// ReadChunked reads the rest of one chunked answer.
func (w *Conn) ReadChunked() (string, error) {
	var got strings.Builder
	piece := make([]byte, 4<<10)
	for !strings.HasSuffix(got.String(), "\r\n0\r\n\r\n") {
		n, err := w.R.Read(piece)
		got.Write(piece[:n])
		if err != nil {
			return got.String(), err
		}
	}
	return got.String(), nil
}

// Leave closes the connection, or, every second time, resets it as the kernel does for a process that was killed.
func (w *Conn) Leave(n int) {
	if n%2 == 0 {
		_ = w.SetLinger(0)
	}
	_ = w.Close()
}

// ReadUntil reads what comes until it holds so many times what is looked for.
func (w *Conn) ReadUntil(want string, times int) {
	w.T.Helper()
	var got strings.Builder
	piece := make([]byte, 4<<10)
	for strings.Count(got.String(), want) < times {
		n, err := w.R.Read(piece)
		got.Write(piece[:n])
		if err != nil {
			w.T.Fatalf("after %.300q: %v", got.String(), err)
		}
	}
}

// ExpectProperEnd reads a stream to its end, which must be the proper one.
func (w *Conn) ExpectProperEnd() {
	w.T.Helper()
	if a := w.Read(); a.Status != 200 || a.Err != nil || !a.Complete() {
		w.T.Errorf("a stream ended with %d %v %.300q", a.Status, a.Err, a.Body[max(0, len(a.Body)-300):])
	}
}
