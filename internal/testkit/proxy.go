package testkit

import (
	"testing"

	"colonnade/internal/faultproxy"
)

// NewProxy starts a proxy on loopback, in front of a server at target, a host:port. It ends with the test.
func NewProxy(t testing.TB, target string) *faultproxy.Proxy {
	t.Helper()
	return NewProxyAt(t, "127.0.0.1:0", target)
}

// NewProxyAt starts a proxy on an address of this machine that ends with the test.
func NewProxyAt(t testing.TB, address, target string) *faultproxy.Proxy {
	t.Helper()
	p, err := faultproxy.Listen(address, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}
