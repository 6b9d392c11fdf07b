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

	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"

	"github.com/valyala/fasthttp"
)

func TestDrainingAnswersAreTheLast(t *testing.T) {
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

// A request behind the one that is the last gets no answer, and takes none away.
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

// Connections that wait leave, without a reset; but those that a request may still come on are given time for it.
func TestIdleConnectionsLeave(t *testing.T) {
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

// wantLast expects one more answer on a connection that is not silent for long until then. On a machine that is so slow that
// it was, nothing can be expected.
func wantLast(t *testing.T, ask func() (last bool, err error), then time.Time) {
	t.Helper()
	if last, err := ask(); (!last || err != nil) && time.Now().Before(then) {
		t.Errorf("on a connection that was not silent for long: last %v, %v", last, err)
	}
}

// A request of which half has come when its server ends is waited for.
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

// Whoever connects until the very end is answered or refused, and never reset.
func TestShutResetsNobody(t *testing.T) {
	for range 3 {
		s := forwardtest.Serve(t, nil)
		var crowd sync.WaitGroup
		var answered, reset atomic.Int64
		for range 16 {
			crowd.Go(func() {
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
		s.StopAccepting(server.DrainTimings{Quiet: time.Second}) // far longer than from a connect to its request
		crowd.Wait()
		if n := reset.Load(); n > 0 {
			t.Errorf("%d of %d were reset", n, answered.Load()+n)
		}
		s.Stop(server.DrainTimings{})
	}
}

// A server that nobody asks is quiet at once; one that is asked all the time for as long as it may take to notice.
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
	f("never asked", await(hour, nil), 0, forwardtest.Patience)
	hour.Settle = 100 * time.Millisecond
	f("never asked, but told to wait", await(hour, nil), hour.Settle, forwardtest.Patience)
	c := forwardtest.MustDial(t, s)
	asked := time.Now()
	if _, err := c.Ask(); err != nil {
		t.Fatal(err)
	}
	await(hour, nil)
	f("just asked", time.Since(asked), hour.Quiet, forwardtest.Patience)
	began := time.Now()
	due := began.Add(200 * time.Millisecond)
	await(hour, func() bool { return time.Now().Before(due) })
	f("somebody is expected", time.Since(began), 200*time.Millisecond, forwardtest.Patience)
	f("somebody is always expected", await(server.DrainTimings{Notice: 100 * time.Millisecond}, func() bool { return true }), 100*time.Millisecond, forwardtest.Patience)
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
	f("asked all the time", await(server.DrainTimings{Notice: time.Second, Quiet: 900 * time.Millisecond}, nil), time.Second, forwardtest.Patience)
	close(stop)
	asking.Wait()
	c.Close()
	s.Stop(server.DrainTimings{})
}

// The end waits for requests, and for connections that were taken over.
func TestEndWaits(t *testing.T) {
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
		t.Error("it has ended with a request in hand")
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	if err := <-answer; err != nil {
		t.Error(err)
	}
	<-over
}

// Who drips a request when time is over is cut.
func TestEndCuts(t *testing.T) {
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
	if took := time.Since(began); took > server.CutAfter+forwardtest.Patience/2 {
		t.Errorf("took %v", took)
	}
}
