package onebox_test

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
)

// wire is a client's bare connection: these tests look at what net/http hides.
type wire struct {
	*net.TCPConn
	t  testing.TB
	br *bufio.Reader
}

// wireAnswer is an answer as it stood on the wire. Its Err is how it was cut, nil if its framing is complete.
type wireAnswer struct {
	answer
	chunks []string // of a chunked answer
}

// dialWire connects to a listener of the fleet, until the test's end.
func dialWire(t testing.TB, address string) *wire {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return newWire(t, c)
}

func newWire(t testing.TB, c net.Conn) *wire {
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &wire{TCPConn: c.(*net.TCPConn), t: t, br: bufio.NewReader(patient{c})}
}

// patient waits for each piece that it reads as long as any test does: on a busy machine a stream may take its time.
type patient struct{ net.Conn }

func (p patient) Read(b []byte) (int, error) {
	_ = p.SetReadDeadline(time.Now().Add(patience))
	return p.Conn.Read(b)
}

// post sends a request with a JSON body, and more header lines.
func (w *wire) post(path, body string, lines ...string) {
	w.t.Helper()
	w.send("POST "+path+" HTTP/1.1", append([]string{"Host: fleet", "Content-Type: application/json",
		"Content-Length: " + strconv.Itoa(len(body))}, lines...), body)
}

func (w *wire) send(first string, lines []string, rest string) {
	w.t.Helper()
	if _, err := io.WriteString(w, first+"\r\n"+strings.Join(lines, "\r\n")+"\r\n\r\n"+rest); err != nil {
		w.t.Errorf("cannot send: %v", err)
	}
}

// read reads one answer, to its end or to that of the connection.
func (w *wire) read() (a wireAnswer) {
	a.Err = func() error {
		if err := w.readHead(&a); err != nil {
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
		n, err := io.ReadFull(w.br, body)
		a.Body = string(body[:n])
		return err
	}()
	return a
}

func (w *wire) readHead(a *wireAnswer) error {
	head := textproto.NewReader(w.br)
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

func (w *wire) readChunks(a *wireAnswer) error {
	var body strings.Builder
	defer func() { a.Body = body.String() }()
	for {
		line, err := w.br.ReadString('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(strings.TrimSuffix(line, "\r\n"), 16, 32)
		if err != nil {
			return err
		}
		chunk := make([]byte, size+2)
		n, err := io.ReadFull(w.br, chunk)
		chunk = chunk[:min(n, int(size))]
		body.Write(chunk)
		if err != nil || size == 0 {
			return err
		}
		a.chunks = append(a.chunks, string(chunk))
	}
}

// ended reads until the connection ends, and says how.
func (w *wire) ended() string {
	rest, err := io.ReadAll(w.br)
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
