package testkit

import (
	"net"
	"runtime"
	"testing"
)

// NeedsLinux skips the test on other systems, and with the build tag portable, by which Linux tests what they have. It says why: "only
// Linux " and the reason.
func NeedsLinux(t testing.TB, reason string) {
	t.Helper()
	if runtime.GOOS != "linux" || portable {
		t.Skip("only Linux " + reason)
	}
}

// NeedsAddress skips the test if this machine does not have the IP address, as other systems than Linux have only the first of loopback.
func NeedsAddress(t testing.TB, ip string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Skipf("the test connects from %s, which this machine does not have (on macOS: ifconfig lo0 alias %s): %v", ip, ip, err)
	}
	l.Close()
}
