package node

import (
	"strings"
	"testing"
)

func TestAllOrNone(t *testing.T) {
	f := func(a, b, c string, given bool, want string) {
		t.Helper()
		got, err := allOrNone(setting{"-a", a}, setting{"-b", b}, setting{"-c", c})
		if got != given || want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q %q %q: %v, %v", a, b, c, got, err)
		}
	}
	f("", "", "", false, "")
	f("x", "y", "z", true, "")
	f("x", "y", "", false, "flag -c is missing: the flags -a, -b, -c go together")
	f("", "y", "", false, "flag -a and -c is missing")
}
