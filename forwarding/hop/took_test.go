package hop_test

import (
	"testing"
	"time"

	"colonnade/forwarding/hop"
)

func TestTook(t *testing.T) {
	for _, d := range []time.Duration{0, time.Microsecond, 80 * time.Millisecond, 24 * time.Hour} {
		if got, ok := hop.ParseTook(hop.FormatTook(d)); !ok || got != d {
			t.Errorf("%s is read as %s, %v", d, got, ok)
		}
	}
	if got := hop.FormatTook(-time.Second); got != "0" {
		t.Errorf("a time below 0 is written as %s", got)
	}
	for _, value := range []string{"", "-1", "+1", "1.5", "1 ", "0x10", "1ms", "86400000001", "18446744073709551616"} {
		if got, ok := hop.ParseTook(value); ok {
			t.Errorf("%q is read as %s", value, got)
		}
	}
}
