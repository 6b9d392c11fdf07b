package hop_test

import (
	"strings"
	"testing"

	"colonnade/forwarding/hop"
)

// A progress that can be parsed is written so that it parses to the same again, in a form that fits into a header.
func FuzzProgress(f *testing.F) {
	for _, s := range []string{"position=3;expected_ms=1200", "position=1", "x=1;position=2;y", "position=0", "", ";;", "position=1;position=2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := hop.ParseProgress(s)
		if err != nil {
			return
		}
		if again, err := hop.ParseProgress(p.String()); err != nil || again != p || p.Position < 1 || p.Expected < 0 {
			t.Errorf("%q is %+v, then %+v, %v", s, p, again, err)
		}
		if strings.ContainsAny(p.String(), "\r\n ") {
			t.Errorf("%q is written as %q", s, p.String())
		}
	})
}
