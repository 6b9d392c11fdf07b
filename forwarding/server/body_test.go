package server

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/reasons"
)

// upload is a client that sends pieces of a body at a pace, and what became of it.
type upload struct {
	length, limit int
	first, piece  int // bytes: at once, and then every second
	held          int64
}

func (u upload) run(t *testing.T) (took time.Duration, in *bodyReader, err error) {
	client, server := net.Pipe()
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		left := u.length
		for n := min(u.first, left); ; n = min(u.piece, left) {
			if _, err := client.Write(make([]byte, n)); err != nil {
				return
			}
			if left -= n; left == 0 {
				return
			}
			time.Sleep(time.Second)
		}
	}()
	all := &bodyMemory{}
	all.reading.Store(u.held)
	in = &bodyReader{conn: server, stream: io.LimitReader(server, int64(u.length)), length: u.length, limit: u.limit, bodies: all}
	began := time.Now()
	err = in.readAll(t.Context())
	took = time.Since(began)
	server.Close()
	<-sending
	if now := all.reading.Load(); now != u.held {
		t.Errorf("%+v: %d bytes are counted afterwards", u, now-u.held)
	}
	return took, in, err
}

// A body may take as long as it likes while it gets on, and no longer than a window when it does not.
func TestBodiesMustGetOn(t *testing.T) {
	f := func(name string, u upload, cutAfter time.Duration) {
		t.Helper()
		if u.limit == 0 {
			u.limit = 16 << 20
		}
		synctest.Test(t, func(t *testing.T) {
			took, in, err := u.run(t)
			switch {
			case cutAfter == 0 && (err != nil || len(in.body) != u.length):
				t.Errorf("%s: %d of %d bytes after %v: %v", name, len(in.body), u.length, took, err)
			case cutAfter != 0 && (!errors.Is(err, os.ErrDeadlineExceeded) || took != cutAfter):
				t.Errorf("%s: ended after %v with %v, want it cut after %v", name, took, err, cutAfter)
			}
		})
	}
	f("drips", upload{length: 1 << 20, piece: 1}, progressWindow)
	f("comes and then drips", upload{length: 1 << 20, first: 1<<20 - 100, piece: 1}, progressWindow)
	f("stops", upload{length: 1 << 20, first: 100 << 10, piece: 0}, progressWindow)
	f("on a bad link", upload{length: 300 << 10, piece: 1 << 10}, 0)
	f("whose end is short", upload{length: 1<<20 + 9, first: 1 << 20, piece: 1}, 0)
	f("slow, and memory is short", upload{length: 300 << 10, piece: 1 << 10, held: maxBodyMemory/2 + 1}, progressWindow)
	f("fast, and memory is short", upload{length: 300 << 10, piece: 30 << 10, held: maxBodyMemory/2 + 1}, 0)
	f("at once", upload{length: 16 << 20, first: 16 << 20}, 0)
}

// Memory follows what has come, and all bodies together have a bound.
func TestMemoryOfBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, in, err := upload{length: 16 << 20, limit: 16 << 20, first: 100, piece: 1}.run(t)
		if !errors.Is(err, os.ErrDeadlineExceeded) || cap(in.body) > minBuffer {
			t.Errorf("a body that was only announced has %d bytes of memory: %v", cap(in.body), err)
		}
		_, in, err = upload{length: 1 << 20, limit: 16 << 20, first: 1 << 20}.run(t)
		if err != nil || cap(in.body) != 1<<20 {
			t.Errorf("a body of a MiB has %d bytes of memory: %v", cap(in.body), err)
		}
		_, in, err = upload{length: 1 << 20, limit: 16 << 20, first: 1 << 20, held: maxBodyMemory - 64<<10}.run(t)
		if !errors.Is(err, errBodyMemory) || len(in.body) > minBuffer { // the next piece has room, but not beside the first
			t.Errorf("beyond the bound %d bytes were read: %v", len(in.body), err)
		}
		if e := bodyError(err, 16<<20); e.Status != 503 || e.Reason != reasons.BodyMemory {
			t.Errorf("it is refused with %d, %s", e.Status, e.Reason)
		}
		if _, _, err = (upload{length: 1 << 30, limit: 1 << 30, first: 1 << 20}).run(t); errors.Is(err, errBodyMemory) {
			t.Error("there is no room for the largest body that may be")
		}
	})
}

// Whoever waits for a body is woken by the end of its request.
func TestBodyOfARequestThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		in := bodyReader{conn: server, stream: server, length: 1 << 20, limit: 1 << 20, bodies: &bodyMemory{}}
		if err := in.readAll(ctx); !errors.Is(err, netconn.ErrCancelled) || time.Since(began) != time.Second {
			t.Errorf("ended after %v with %v", time.Since(began), err)
		}
	})
}
