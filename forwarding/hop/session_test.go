package hop_test

import (
	"strings"
	"testing"

	"colonnade/forwarding/hop"
)

func TestIsSession(t *testing.T) {
	f := func(name string, want bool) {
		t.Helper()
		if hop.IsSession(name) != want {
			t.Errorf("%q is a session: %v", name, !want)
		}
	}
	f("chat-17/\"a\"", true)
	f(strings.Repeat("x", 256), true)
	f(strings.Repeat("x", 257), false)
	f("", false)
	f("a b", false)
	f("ä", false)
	f("a\x7f", false)
}
