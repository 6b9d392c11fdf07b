package httpguard_test

import (
	"testing"

	"colonnade/forwarding/httpguard"
)

func TestIsOriginOf(t *testing.T) {
	f := func(origin, host string, want bool) {
		t.Helper()
		if httpguard.IsOriginOf(origin, host) != want {
			t.Errorf("origin %q, host %q: got %v", origin, host, !want)
		}
	}
	f("http://a.example:8080", "a.example:8080", true)
	f("https://a.example", "A.example", true) // a proxy has removed TLS
	f("http://[::1]:8080", "[::1]:8080", true)
	f("http://a.example:8080", "a.example", false)
	f("http://a.example", "a.example:8080", false)
	f("http://a.example.evil.example", "a.example", false)
	f("http://evil.example/a.example", "a.example", false)
	f("http://evil.example@a.example", "a.example", false)
	f("null", "null", false)
	f("a.example", "a.example", false)
	f("://", "", false)
	f("", "", false)
}

func TestFixedHosts(t *testing.T) {
	f := func(host, name string, want bool) {
		t.Helper()
		if got := httpguard.HostName(host); got != name || httpguard.IsFixedHost(got) != want {
			t.Errorf("%q: got %q, want %q, fixed: %v", host, got, name, want)
		}
	}
	f("127.0.0.1:8080", "127.0.0.1", true)
	f("10.0.0.7", "10.0.0.7", true)
	f("[2001:DB8::1]:8080", "2001:db8::1", true)
	f("[::1]", "::1", true)
	f("LocalHost:8080", "localhost", true)
	f("localhost.", "localhost", true)
	f("edge-1:8080", "edge-1", false)
	f("localhost.evil.example", "localhost.evil.example", false)
	f("127.0.0.1.evil.example:80", "127.0.0.1.evil.example", false)
	f("127.1", "127.1", false) // browsers send it as 127.0.0.1
	f("1.2.3.4:80:80", "1.2.3.4:80:80", false)
	f("", "", false)
}
