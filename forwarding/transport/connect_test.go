package transport_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/internal/testkit"
)

// A connection is awaited for no longer than the request has time.
func TestConnectWithinTheRequestsTime(t *testing.T) {
	t.Parallel()
	address := testkit.Unreachable(t)
	for name, change := range map[string]func(*transport.Request){
		"connect":    func(r *transport.Request) { r.ConnectTimeout = 50 * time.Millisecond },
		"first byte": func(r *transport.Request) { r.FirstByteTimeout = 50 * time.Millisecond },
		"total":      func(r *transport.Request) { r.Deadline = time.Now().Add(50 * time.Millisecond) },
	} {
		r := forwardtest.NewRequest(address)
		change(r)
		began := time.Now()
		_, err := forwardtest.NewTransport(t).Do(t.Context(), r, forwardtest.ChatOptions)
		var failed *transport.ExchangeError
		if !errors.As(err, &failed) || failed.Phase != transport.PhaseConnect || !failed.Timeout || netconn.IsRefused(err) {
			t.Errorf("%s: %v, want a timeout while connecting", name, err)
		}
		if took := time.Since(began); took > forwardtest.Patience/2 {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

// A connection that was reset before anything was written is not one on which the request was sent.
func TestResetBeforeTheRequest(t *testing.T) {
	t.Parallel()
	reset := make(chan struct{})
	r := forwardtest.NewRequest(forwardtest.ListenRaw(t, func(c net.Conn) {
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
		close(reset)
	}))
	r.Precondition = func() bool {
		<-reset
		time.Sleep(5 * time.Millisecond) // to arrive
		return true
	}
	_, err := forwardtest.NewTransport(t).Do(t.Context(), r, forwardtest.ChatOptions)
	var failed *transport.ExchangeError
	if !errors.As(err, &failed) || failed.Phase != transport.PhaseConnect || failed.Timeout || !netconn.IsRefused(err) {
		t.Errorf("%v, want a refused connection", err)
	}
}

// A server that does not read a long request gets no longer for it than the request has time, on a new connection and on a kept one.
func TestSendWithinTheRequestsTime(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		if r, err := http.ReadRequest(br); err == nil && r.ContentLength < 1<<10 {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(c, echo("first"))
		}
		<-over
	})
	defer close(over)
	for name, warm := range map[string]bool{"new": false, "kept": true} {
		tr := forwardtest.NewTransport(t)
		if warm {
			a, err := tr.Do(t.Context(), forwardtest.NewRequest(address), forwardtest.ChatOptions)
			if err != nil {
				t.Fatal(err)
			}
			a.Close()
		}
		r := forwardtest.NewRequest(address)
		r.Body, r.FirstByteTimeout = make([]byte, 16<<20), 50*time.Millisecond
		began := time.Now()
		_, err := tr.Do(t.Context(), r, forwardtest.ChatOptions)
		var failed *transport.ExchangeError
		if !errors.As(err, &failed) || failed.Phase != transport.PhaseFirstByte || !failed.Timeout {
			t.Errorf("%s: %v, want a timeout before the first byte", name, err)
		}
		if took := time.Since(began); took > forwardtest.Patience/2 {
			t.Errorf("%s: took %v", name, took)
		}
	}
}
