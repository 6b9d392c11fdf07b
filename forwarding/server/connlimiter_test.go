package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"
)

// limited returns a server with limits of its connections.
func limited(t *testing.T, config server.Config, total int) *forwardtest.Drainable {
	t.Helper()
	return forwardtest.ServeConfig(t, config, func(s *server.Server) { s.SetMaxConnections(total) })
}

const askOK = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// An address has its limit of connections, and another connection as soon as one has ended. Other addresses are not affected.
func TestLimitPerAddress(t *testing.T) {
	lines := make(forwardtest.LogLines, 10)
	var refused atomic.Int64
	s := limited(t, server.Config{
		MaxPerIP: 3, OnRefusedConn: func() { refused.Add(1) }, Logger: slog.New(slog.NewTextHandler(lines, nil)),
	}, server.MaxConnections)
	mine := []*forwardtest.RawClient{s.DialFrom("127.0.0.1"), s.DialFrom("127.0.0.1"), s.DialFrom("127.0.0.1")}
	s.AssertServed(mine...)
	others := []*forwardtest.RawClient{s.DialFrom("127.0.0.2"), s.DialFrom("127.0.0.3"), s.DialFrom("127.0.0.2")}
	long := "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("x", 300_000)
	for _, request := range []string{askOK, askOK, long} {
		status, reason, number := s.DialFrom("127.0.0.1").ReadRefusal(t, request)
		if status != 429 || reason != "too_many_connections" || number != 42901 {
			t.Errorf("refused with %d, %q, %d", status, reason, number)
		}
		s.AssertServed(others...)
		s.AssertServed(mine...)
	}
	if n := s.ConnStats(); n != (server.ConnStats{Open: 6, RefusedPerIP: 3}) || refused.Load() != 3 {
		t.Errorf("%+v, and OnRefusedConn was called %d times", n, refused.Load())
	}
	if line := forwardtest.Receive(t, "the log", lines); !strings.Contains(line, "127.0.0.1") || !strings.Contains(line, "may have no more") {
		t.Errorf("logged %q", line)
	}
	if len(lines) > 0 {
		t.Errorf("and logged %q", <-lines)
	}
	for i := range mine {
		mine[i].Close()
		s.WaitFor(func() bool { return s.ConnStats().Open == 5 })
		mine[i] = s.DialFrom("127.0.0.1")
		s.AssertServed(mine[i])
	}
	s.Stop(server.DrainTimings{})
	if n := s.ConnStats(); n.Open != 0 || s.CountedNetworks() != 0 {
		t.Errorf("in the end %+v, by address %d", n, s.CountedNetworks())
	}
}

// A connection above the limit of the server gets an OpenAI-shaped error.
func TestLimitOfAllConnections(t *testing.T) {
	s := limited(t, server.Config{MaxPerIP: 2}, 3)
	s.AssertServed(s.DialFrom("127.0.0.1"), s.DialFrom("127.0.0.2"), s.DialFrom("127.0.0.3"))
	if status, reason, number := s.DialFrom("127.0.0.4").ReadRefusal(t, askOK); status != 503 || reason != "too_many_connections" || number != 50301 {
		t.Errorf("refused with %d, %q, %d", status, reason, number)
	}
	if n := s.ConnStats(); n != (server.ConnStats{Open: 3, RefusedGlobal: 1}) {
		t.Errorf("%+v", n)
	}
	s.Stop(server.DrainTimings{})
}

// The watcher finds the client of a counted connection leave.
func TestWatchCountedConnections(t *testing.T) {
	gone, began := make(chan error, 1), make(chan struct{}, 1)
	var s *forwardtest.Drainable
	s = limited(t, server.Config{MaxPerIP: 1, Handle: func(rc *fasthttp.RequestCtx) {
		c := s.Inflight.Begin()
		defer c.Close()
		if err := c.WatchClient(rc.Conn()); err != nil {
			t.Error(err)
		}
		began <- struct{}{}
		select {
		case <-c.Context.Done():
			gone <- context.Cause(c.Context)
		case <-time.After(forwardtest.Patience):
			gone <- errors.New("not noticed")
		}
	}}, server.MaxConnections)
	c := s.DialFrom("127.0.0.1")
	fmt.Fprint(c, askOK)
	<-began
	c.Close()
	if err := <-gone; !errors.Is(err, server.ErrClientGone) {
		t.Error(err)
	}
	s.WaitFor(func() bool { return s.ConnStats().Open == 0 })
	s.Stop(server.DrainTimings{})
}

// A hijacked connection counts until it is closed.
func TestHijackedConnectionsCount(t *testing.T) {
	release := make(chan struct{})
	s := limited(t, server.Config{MaxPerIP: 1, Handle: func(rc *fasthttp.RequestCtx) {
		if string(rc.Path()) == "/hijack" {
			rc.Hijack(func(nc net.Conn) {
				<-release
				nc.Close()
			})
		}
	}}, server.MaxConnections)
	c := s.DialFrom("127.0.0.1")
	fmt.Fprint(c, "GET /hijack HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := c.ReadOK(); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := s.DialFrom("127.0.0.1").ReadRefusal(t, askOK); status != 429 {
		t.Errorf("a second connection: %d", status)
	}
	close(release)
	s.WaitFor(func() bool { return s.ConnStats().Open == 0 })
	s.AssertServed(s.DialFrom("127.0.0.1"))
	s.Stop(server.DrainTimings{})
}

// A flood of refused connections takes a bounded number of goroutines and little memory, and open connections are served.
func TestFloodOfConnections(t *testing.T) {
	s := limited(t, server.Config{MaxPerIP: 2}, server.MaxConnections)
	mine, other := s.DialFrom("127.0.0.1"), s.DialFrom("127.0.0.2")
	s.AssertServed(mine, other, s.DialFrom("127.0.0.1"))
	goroutines, heap := runtime.NumGoroutine(), inUse()
	most, flood := 0, 5000
	var all []net.Conn
	for i := range flood {
		c, err := net.Dial("tcp", s.Address)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
		if i%2 == 0 {
			_, _ = io.WriteString(c, askOK) // it may be closed already
		}
		if i%500 == 0 {
			s.AssertServed(mine, other)
		}
		most = max(most, runtime.NumGoroutine()-goroutines)
	}
	s.WaitFor(func() bool { return s.ConnStats().RefusedPerIP == uint64(flood) })
	grown := inUse() - heap
	if most > server.MaxRejecting+20 {
		t.Errorf("%d goroutines for %d connections that are refused", most, flood)
	}
	if limit := flood*400 + server.MaxRejecting*(16<<10) + 4<<20; grown > limit { // most of it is the clients', which run in this process, too
		t.Errorf("%d KiB of memory, want at most %d", grown>>10, limit>>10)
	}
	t.Logf("at most %d goroutines more, %d KiB", most, grown>>10)
	for _, c := range all {
		c.Close()
	}
	s.AssertServed(mine, other)
	s.WaitFor(func() bool { return s.Rejecting() == 0 })
	s.Stop(server.DrainTimings{})
}

// inUse returns the memory of the heap and of stacks in bytes.
func inUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// Shutdown closes refused connections that do not read their reason.
func TestShutdownClosesRefusedConnections(t *testing.T) {
	s := limited(t, server.Config{MaxPerIP: 1}, server.MaxConnections)
	s.AssertServed(s.DialFrom("127.0.0.1"))
	late := s.DialFrom("127.0.0.1") // and sends nothing
	s.WaitFor(func() bool { return s.Rejecting() == 1 })
	s.Stop(server.DrainTimings{})
	if _, err := late.Read(make([]byte, 1)); err == nil {
		t.Error("it is still open")
	}
}

// At the limit of the server, idle connections of the address with most are closed for a new one: first those that never sent anything.
// Connections with a request, and those of other addresses, stay.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}, 1), make(chan struct{})
	s := forwardtest.ServeConfig(t, server.Config{MaxConns: 6, Handle: func(rc *fasthttp.RequestCtx) {
		if string(rc.Path()) == "/busy" {
			begun <- struct{}{}
			<-release
		}
	}})
	busy, used, other := s.DialFrom("127.0.0.9"), s.DialFrom("127.0.0.9"), s.DialFrom("127.0.0.1")
	fmt.Fprint(busy, "GET /busy HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun
	s.AssertServed(used, other)
	silent := []net.Conn{s.DialFrom("127.0.0.9"), s.DialFrom("127.0.0.9"), s.DialFrom("127.0.0.9")}
	s.WaitFor(func() bool { return s.ConnStats().Open == 6 })

	s.AssertServed(s.DialFrom("127.0.0.2"), s.DialFrom("127.0.0.3"))
	s.AssertServed(used, other)
	close(release)
	for n, c := range silent[:2] {
		_ = c.SetReadDeadline(time.Now().Add(forwardtest.Patience))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("silent connection %d: %v", n, err)
		}
	}
	if last, err := busy.ReadOK(); err != nil {
		t.Errorf("the request that was being served: last %v, %v", last, err)
	}
	if n := s.ConnStats(); n.Open != 6 || n.RefusedGlobal != 0 {
		t.Errorf("%+v", n)
	}
	s.Stop(server.DrainTimings{})
}
