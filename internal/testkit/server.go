package testkit

import (
	"context"
	"net"
	"sync"
	"testing"
)

// Serve accepts connections on a loopback address, calls serve for each in a goroutine of its own, and closes the
// connection when serve returns. At the end of the test it closes open connections and waits for their goroutines.
func Serve(t testing.TB, serve func(net.Conn)) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				defer context.AfterFunc(ctx, func() { c.Close() })()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		cancel()
		serving.Wait()
	})
	return ln.Addr().String()
}
