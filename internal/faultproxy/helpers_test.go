package faultproxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"colonnade/internal/faultproxy"
	"colonnade/internal/testkit"
)

// fixture is a proxy in front of a server whose connections the test gets.
type fixture struct {
	*faultproxy.Proxy
	t        testing.TB
	accepted chan net.Conn
}

func start(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{t: t, accepted: make(chan net.Conn, 64)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			f.accepted <- c
		}
	}()
	f.Proxy, err = faultproxy.Listen("127.0.0.1:0", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// end is one end of a connection through the proxy. Each operation fails the test after a minute.
type end struct {
	*net.TCPConn
	t testing.TB
	r *bufio.Reader
}

func newEnd(t testing.TB, c net.Conn) *end {
	t.Helper()
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(testkit.Timeout))
	return &end{c.(*net.TCPConn), t, bufio.NewReader(c)}
}

// dial connects through the proxy.
func (f *fixture) dial() *end {
	f.t.Helper()
	c, err := net.Dial("tcp", f.Address)
	if err != nil {
		f.t.Fatal(err)
	}
	return newEnd(f.t, c)
}

// connect returns both ends of a connection through the proxy.
func (f *fixture) connect() (client, server *end) {
	f.t.Helper()
	client = f.dial()
	select {
	case c := <-f.accepted:
		return client, newEnd(f.t, c)
	case <-time.After(testkit.Timeout):
		f.t.Fatal("the proxy does not connect")
		return nil, nil
	}
}

func (e *end) send(text string) {
	e.t.Helper()
	if _, err := io.WriteString(e, text); err != nil {
		e.t.Errorf("cannot send %.20q: %v", text, err)
	}
}

func (e *end) wantBytes(text string) {
	e.t.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(e.r, got); err != nil || string(got) != text {
		e.t.Errorf("received %.20q, %v, want %.20q", got[:n], err, text)
	}
}

// wantEnd reads until the end of the stream, which must be a FIN, and returns what came before.
func (e *end) wantEnd() string {
	e.t.Helper()
	got, err := io.ReadAll(e.r)
	if err != nil {
		e.t.Errorf("received %.20q and then %v, want a FIN", got, err)
	}
	return string(got)
}

// wantReset reads until the end of the stream, which must be an RST, and returns what came before.
func (e *end) wantReset() string {
	e.t.Helper()
	got, err := io.ReadAll(e.r)
	if !errors.Is(err, syscall.ECONNRESET) {
		e.t.Errorf("received %.20q and then %v, want an RST", got, err)
	}
	return string(got)
}

// silence is how long a test waits for something that must not come.
const silence = 30 * time.Millisecond

// wantSilence fails the test if a byte or the end arrives within a moment.
func (e *end) wantSilence() {
	e.t.Helper()
	_ = e.SetReadDeadline(time.Now().Add(silence))
	if _, err := e.r.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		e.t.Errorf("received something, or the end: %v", err)
	}
	_ = e.SetReadDeadline(time.Now().Add(testkit.Timeout))
}
