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

// upload is a client that sends a body in pieces.
type upload struct {
	length, limit int
	first, piece  int // bytes: at once, and then every second
	reserved      int // bytes of another unfinished body of the client
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
	all := &bodyMemory{size: DefaultBodyMemory}
	other := unfinishedBody{conn: server}
	if err := all.reserve(&other, u.reserved, u.limit); err != nil {
		t.Fatal(err)
	}
	in = &bodyReader{conn: server, stream: io.LimitReader(server, int64(u.length)), length: u.length, limit: u.limit, memory: all}
	began := time.Now()
	err = in.readAll(t.Context())
	took = time.Since(began)
	server.Close()
	<-sending
	if all.total != int64(u.reserved) {
		t.Errorf("%+v: %d bytes are still reserved", u, all.total-int64(u.reserved))
	}
	_ = all.end(&other)
	if all.total != 0 || len(all.holders) != 0 || len(all.largest) != 0 {
		t.Errorf("%+v: %d bytes of %d clients at the end", u, all.total, len(all.holders))
	}
	return took, in, err
}

// A body may take any time while it makes progress, and one window while it does not.
func TestBodiesMustMakeProgress(t *testing.T) {
	f := func(name string, u upload, endsAfter time.Duration) {
		t.Helper()
		if u.limit == 0 {
			u.limit = 16 << 20
		}
		synctest.Test(t, func(t *testing.T) {
			took, in, err := u.run(t)
			switch {
			case endsAfter == 0 && (err != nil || len(in.body) != u.length):
				t.Errorf("%s: %d of %d bytes after %v: %v", name, len(in.body), u.length, took, err)
			case endsAfter != 0 && (!errors.Is(err, os.ErrDeadlineExceeded) || took != endsAfter):
				t.Errorf("%s: ended after %v with %v, want it to end after %v", name, took, err, endsAfter)
			}
		})
	}
	f("a byte at a time", upload{length: 1 << 20, piece: 1}, progressWindow)
	f("all but the end at once", upload{length: 1 << 20, first: 1<<20 - 100, piece: 1}, progressWindow)
	f("stops", upload{length: 1 << 20, first: 100 << 10, piece: 0}, progressWindow)
	f("a slow link", upload{length: 300 << 10, piece: 1 << 10}, 0)
	f("a short end", upload{length: 1<<20 + 9, first: 1 << 20, piece: 1}, 0)
	f("slow while memory is short", upload{length: 300 << 10, piece: 1 << 10, reserved: DefaultBodyMemory/4 + 1}, progressWindow)
	f("fast while memory is short", upload{length: 300 << 10, piece: 30 << 10, reserved: DefaultBodyMemory/4 + 1}, 0)
	f("slow after much", upload{length: 16 << 20, first: 9 << 20, piece: 16 << 10}, progressWindow)
	f("fast after much", upload{length: 10 << 20, first: 9 << 20, piece: 90 << 10}, 0)
	f("at once", upload{length: 16 << 20, first: 16 << 20}, 0)
}

// The memory of a body grows with what has arrived, and all bodies share a limit.
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
		_, in, err = upload{length: 1 << 20, limit: 16 << 20, first: 1 << 20, reserved: DefaultBodyMemory/2 - 64<<10}.run(t)
		if !isRefusal(err) || len(in.body) > minBuffer { // there is room for the next piece, but not for both
			t.Errorf("beyond the bound %d bytes were read: %v", len(in.body), err)
		}
		if e := bodyError(err, 16<<20); e.Status != 503 || e.Reason != reasons.BodyMemory {
			t.Errorf("it is refused with %d, %s", e.Status, e.Reason)
		}
		if _, _, err = (upload{length: 1 << 30, limit: 1 << 30, first: 1 << 20}).run(t); isRefusal(err) {
			t.Error("there is no room for the largest body that may be")
		}
	})
}

func isRefusal(err error) bool {
	var refused *bodyMemoryError
	return errors.As(err, &refused)
}

// A read of a body ends with the context of its request.
func TestBodyOfACancelledRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		in := bodyReader{conn: server, stream: server, length: 1 << 20, limit: 1 << 20, memory: &bodyMemory{}}
		if err := in.readAll(ctx); !errors.Is(err, netconn.ErrCancelled) || time.Since(began) != time.Second {
			t.Errorf("ended after %v with %v", time.Since(began), err)
		}
	})
}
