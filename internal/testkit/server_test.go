package testkit

import (
	"net"
	"testing"
)

// A connection that is open when the test ends is closed, and its goroutine has returned.
func TestServeEndsWithItsTest(t *testing.T) {
	var c net.Conn
	served, returned := make(chan struct{}), false
	t.Run("open at its end", func(t *testing.T) {
		address := Serve(t, func(c net.Conn) {
			close(served)
			_, _ = c.Read(make([]byte, 1))
			returned = true
		})
		var err error
		if c, err = net.Dial("tcp", address); err != nil {
			t.Fatal(err)
		}
		<-served
	})
	defer c.Close()
	if !returned {
		t.Error("it is still served")
	}
}
