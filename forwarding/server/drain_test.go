package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"
	"colonnade/internal/testkit"
)

func TestResponsesOfADrainAreTheLast(t *testing.T) {
	s := forwardtest.Serve(t, nil)
	c := forwardtest.MustDial(t, s)
	if last, err := c.Ask(); last || err != nil {
		t.Errorf("before: last %v, %v", last, err)
	}
	s.Drain()
	if last, err := c.Ask(); !last || err != nil {
		t.Errorf("while draining: last %v, %v", last, err)
	}
	c.AssertEOF(t)
	if last, err := forwardtest.MustDial(t, s).Ask(); !last || err != nil {
		t.Errorf("a new connection while draining: last %v, %v", last, err)
	}
	s.Stop(server.DrainTimings{})
}

// The end of a drain keeps connections open again, and a server that accepts no more stays at its end.
func TestUndrain(t *testing.T) {
	s := forwardtest.Serve(t, nil)
	s.Drain()
	s.Undrain()
	c := forwardtest.MustDial(t, s)
	for range 2 {
		if last, err := c.Ask(); last || err != nil {
			t.Errorf("after the drain: last %v, %v", last, err)
		}
	}
	s.Drain()
	if last, err := c.Ask(); !last || err != nil {
		t.Errorf("while draining again: last %v, %v", last, err)
	}
	s.Stop(server.DrainTimings{})
}

// A request that is pipelined behind the last one gets no response, and does not affect that of the last.
func TestPipelinedBehindTheLast(t *testing.T) {
	s := forwardtest.Serve(t, nil)
	c := forwardtest.MustDial(t, s)
	s.Drain()
	fmt.Fprint(c, strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 5000))
	time.Sleep(20 * time.Millisecond)
	if last, err := c.ReadOK(); !last || err != nil {
		t.Errorf("last %v, %v", last, err)
	}
	c.AssertEOF(t)
	s.Stop(server.DrainTimings{})
}

// Idle connections close without a reset, but not before their clients have been silent for a while.
func TestIdleConnectionsClose(t *testing.T) {
	s := forwardtest.Serve(t, nil)
	p := server.DrainTimings{Quiet: time.Second}
	used, unused := forwardtest.MustDial(t, s), forwardtest.MustDial(t, s)
	if _, err := used.Ask(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(p.Quiet)
	asked := time.Now()
	fresh, recent := forwardtest.MustDial(t, s), forwardtest.MustDial(t, s)
	if _, err := recent.Ask(); err != nil {
		t.Fatal(err)
	}
	go s.StopAccepting(p)
	used.AssertEOF(t)
	unused.AssertEOF(t)
	if _, err := used.Write([]byte("GET / HTTP/1.1\r\n")); err != nil {
		t.Errorf("a request that crosses the end of its connection: %v", err)
	}
	for _, c := range []*forwardtest.RawClient{fresh, recent} {
		wantLast(t, c.Ask, asked.Add(p.Quiet))
	}
	s.Stop(p)
}

// wantLast expects a last response on a connection whose client has not been silent for long, unless the given time has passed: on a
// slow machine it may have been.
func wantLast(t *testing.T, ask func() (last bool, err error), then time.Time) {
	t.Helper()
	if last, err := ask(); (!last || err != nil) && time.Now().Before(then) {
		t.Errorf("on a connection that was not silent: last %v, %v", last, err)
	}
}

// A request of which half has arrived when the server stops is served.
func TestHalfARequest(t *testing.T) {
	s := forwardtest.Serve(t, nil)
	c := forwardtest.MustDial(t, s)
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHo")
	time.Sleep(50 * time.Millisecond)
	s.StopAccepting(server.DrainTimings{})
	time.Sleep(50 * time.Millisecond)
	fmt.Fprint(c, "st: x\r\n\r\n")
	if last, err := c.ReadOK(); !last || err != nil {
		t.Errorf("last %v, %v", last, err)
	}
	s.Stop(server.DrainTimings{})
}

// A client that connects at the very end is served or refused, and never reset.
func TestStopAcceptingResetsNoConnection(t *testing.T) {
	testkit.NeedsLinux(t, "refuses connections at a listening socket before it is closed")
	for range 3 {
		s := forwardtest.Serve(t, nil)
		var clients sync.WaitGroup
		var answered, reset atomic.Int64
		for range 16 {
			clients.Go(func() {
				for {
					c, err := forwardtest.Dial(s.Address)
					if errors.Is(err, syscall.ECONNREFUSED) {
						return
					}
					if err == nil {
						_, err = c.Ask()
						c.Close()
					}
					switch {
					case err == nil:
						answered.Add(1)
					case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
						reset.Add(1)
					default:
						t.Error(err)
						return
					}
				}
			})
		}
		for answered.Load() < 200 {
			time.Sleep(time.Millisecond)
		}
		s.StopAccepting(server.DrainTimings{Quiet: time.Second}) // far longer than between a connect and its request
		clients.Wait()
		if n := reset.Load(); n > 0 {
			t.Errorf("%d of %d were reset", n, answered.Load()+n)
		}
		s.Stop(server.DrainTimings{})
	}
}

// AwaitQuiet returns at once without requests, and at the end of Notice if they do not stop.
func TestAwaitQuiet(t *testing.T) {
	s := forwardtest.Serve(t, nil)
	await := func(p server.DrainTimings, expected func() bool) time.Duration {
		began := time.Now()
		s.AwaitQuiet(context.Background(), p, expected)
		return time.Since(began)
	}
	f := func(name string, took, least, most time.Duration) {
		t.Helper()
		if took < least || took > most {
			t.Errorf("%s: waited %v, want %v to %v", name, took, least, most)
		}
	}
	hour := server.DrainTimings{Notice: time.Hour, Quiet: 300 * time.Millisecond}
	f("no request", await(hour, nil), 0, forwardtest.Patience)
	hour.Settle = 100 * time.Millisecond
	f("no request, and a shortest time", await(hour, nil), hour.Settle, forwardtest.Patience)
	c := forwardtest.MustDial(t, s)
	asked := time.Now()
	if _, err := c.Ask(); err != nil {
		t.Fatal(err)
	}
	await(hour, nil)
	f("a recent request", time.Since(asked), hour.Quiet, forwardtest.Patience)
	began := time.Now()
	due := began.Add(200 * time.Millisecond)
	await(hour, func() bool { return time.Now().Before(due) })
	f("a client is expected", time.Since(began), 200*time.Millisecond, forwardtest.Patience)
	f("a client is always expected", await(server.DrainTimings{Notice: 100 * time.Millisecond}, func() bool { return true }), 100*time.Millisecond, forwardtest.Patience)
	stop, asking := make(chan struct{}), sync.WaitGroup{}
	asking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = c.Ask()
			}
		}
	})
	f("requests all the time", await(server.DrainTimings{Notice: time.Second, Quiet: 900 * time.Millisecond}, nil), time.Second, forwardtest.Patience)
	close(stop)
	asking.Wait()
	c.Close()
	s.Stop(server.DrainTimings{})
}

// Shutdown waits for requests in flight.
func TestShutdownWaits(t *testing.T) {
	handling, release := make(chan struct{}), make(chan struct{})
	s := forwardtest.Serve(t, func(*fasthttp.RequestCtx) {
		close(handling)
		<-release
	})
	c, err := forwardtest.Dial(s.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answer := make(chan error, 1)
	go func() {
		_, err := c.Ask()
		answer <- err
	}()
	<-handling
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.Stop(server.DrainTimings{})
	}()
	select {
	case <-over:
		t.Error("it has ended with a request in flight")
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	if err := <-answer; err != nil {
		t.Error(err)
	}
	<-over
}

// A connection with an unfinished request is closed when the time is over.
func TestShutdownClosesConnections(t *testing.T) {
	s := forwardtest.Serve(t, nil)
	c := forwardtest.MustDial(t, s)
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHo")
	time.Sleep(20 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := errors.Join(s.Shutdown(ctx, server.DrainTimings{}, errors.New("time is over")), <-s.Served); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > server.CancelGrace+forwardtest.Patience/2 {
		t.Errorf("took %v", took)
	}
}
