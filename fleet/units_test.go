package fleet_test

import (
	"encoding/json"
	"testing"
	"time"

	"colonnade/fleet"
)

func TestDuration(t *testing.T) {
	f := func(in string, want time.Duration) {
		t.Helper()
		var d fleet.Duration
		err := json.Unmarshal([]byte(in), &d)
		if want < 0 {
			if err == nil {
				t.Errorf("%s is accepted as %v", in, d)
			}
			return
		}
		if err != nil || d.Std() != want {
			t.Errorf("%s = %v, %v, want %v", in, d, err, want)
		}
		again, err := json.Marshal(d)
		var back fleet.Duration
		if err != nil || json.Unmarshal(again, &back) != nil || back != d {
			t.Errorf("%v does not survive as %s", d, again)
		}
	}
	f(`"250ms"`, 250*time.Millisecond)
	f(`"1m30s"`, 90*time.Second)
	f(`"0s"`, 0)
	f(`"0"`, 0)
	f(`0`, 0)
	for _, bad := range []string{`"-1s"`, `1`, `"5"`, `"1d"`, `""`, `true`, `[]`, `"99999999h"`} {
		f(bad, -1)
	}
}

func TestBytes(t *testing.T) {
	f := func(in string, want fleet.Bytes, text string) {
		t.Helper()
		var b fleet.Bytes
		err := json.Unmarshal([]byte(in), &b)
		if want < 0 {
			if err == nil {
				t.Errorf("%s is accepted as %v", in, b)
			}
			return
		}
		if err != nil || b != want || b.String() != text {
			t.Errorf("%s = %d (%v), %v, want %d (%s)", in, int64(b), b, err, int64(want), text)
		}
		again, err := json.Marshal(b)
		var back fleet.Bytes
		if err != nil || json.Unmarshal(again, &back) != nil || back != b {
			t.Errorf("%v does not survive as %s", b, again)
		}
	}
	f(`"64KiB"`, 64*fleet.KiB, "64KiB")
	f(`"16MiB"`, 16*fleet.MiB, "16MiB")
	f(`"1GiB"`, fleet.GiB, "1GiB")
	f(`"1024KiB"`, fleet.MiB, "1MiB")
	f(`"1000"`, 1000, "1000")
	f(`1000`, 1000, "1000")
	f(`0`, 0, "0")
	f(`"0GiB"`, 0, "0")
	for _, bad := range []string{`-1`, `"-1KiB"`, `"KiB"`, `"1 KiB"`, `"1kb"`, `"1KB"`, `"1.5MiB"`, `1.5`, `"+1"`, `""`, `"9223372036854775808"`, `"9007199254740993GiB"`} {
		f(bad, -1, "")
	}
}
