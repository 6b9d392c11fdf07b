//go:build !portable

package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"colonnade/internal/testkit"
)

// A close is reported once for a connection, perhaps before the request that has to end with it has begun.
func TestWatcherRemembersClientsThatLeft(t *testing.T) {
	w := newWatcher(t)
	client, srv := testkit.TCPPair(t)
	conn := connOf(w, srv)
	_, first := watchConn(t, conn)
	first.stop()
	_ = client.CloseWrite()
	testkit.WaitFor(t, "the close to arrive", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return conn.gone })
	for range 2 {
		ctx, next := watchConn(t, conn)
		if cause := context.Cause(ctx); !errors.Is(cause, ErrClientGone) {
			t.Errorf("the next request goes on: %v", cause)
		}
		next.stop()
	}
}

// The input of a client is watched once its request has lasted for a while, also what has arrived before, and not after its end.
func TestWatcherWatchesInputOfLongRequests(t *testing.T) {
	w := newWatcher(t)
	client, srv := testkit.TCPPair(t)
	conn := connOf(w, srv)
	watches := func(want inputWatch) func() bool {
		return func() bool { w.mu.Lock(); defer w.mu.Unlock(); return conn.input == want }
	}
	for range 2 {
		ctx, long := watchConn(t, conn)
		if !watches(inputUnwatched)() {
			t.Fatal("watched from the beginning")
		}
		testkit.WaitFor(t, "the input to be watched", watches(inputCounted))
		if ctx.Err() != nil {
			t.Fatal("gone")
		}
		if long.stop(); !watches(inputUnwatched)() {
			t.Fatal("watched after the end of the request")
		}
	}
	fill(t, client)
	ctx, _ := watchConn(t, conn)
	select {
	case <-ctx.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("what arrived before was not counted")
	}
}
