package hop_test

import (
	"strings"
	"testing"
	"testing/quick"
	"time"

	"colonnade/forwarding/hop"
)

func TestVerdictRoundTrip(t *testing.T) {
	f := func(want hop.Verdict) {
		t.Helper()
		got, err := hop.ParseVerdict(want.String())
		if err != nil || got != want {
			t.Errorf("ParseVerdict(%q) = %+v, %v; want %+v", want.String(), got, err, want)
		}
	}
	f(hop.Verdict{Kind: hop.VerdictOOC})
	f(hop.Verdict{Kind: hop.VerdictOOC, Reason: "queue_full", Number: 42902, RetryAfter: 1250 * time.Millisecond, RetryInterval: 12500 * time.Microsecond,
		Expected: 90 * time.Millisecond})
	f(hop.Verdict{Kind: hop.VerdictError, Reason: "endpoint_misconfigured", Number: 50001, EngineStatus: 401})
	f(hop.Verdict{Kind: hop.VerdictError, Reason: "no_answer", Number: 50001, RetriesMade: 2, EndpointsFailed: 1, Final: true})
	f(hop.Verdict{Kind: hop.VerdictError, Reason: "path_not_served", Number: 40005, Engines: 0x81})
	f(hop.Verdict{Kind: hop.VerdictMoved})
	f(hop.Verdict{Kind: hop.VerdictError, Reason: "connect_failed", Number: 50001, Unsent: true})
	f(hop.Verdict{Kind: hop.VerdictMoved, Reason: "moved", To: "ams-2", Revision: 1 << 40, Waited: true, Drains: true})
	f(hop.Verdict{Kind: hop.VerdictMoved, To: "ams-2", Address: "10.0.0.7:8443", Boot: "ABCDEFGHIJKLM", Protocol: 4, Revision: 7})
	f(hop.Verdict{Kind: hop.VerdictMoved, To: "ams-2", Address: "[2001:db8::7]:8443"})
	f(hop.Verdict{Kind: hop.VerdictMoved, To: "ams-2", Address: strings.Repeat("a", 253) + ":65535", Boot: strings.Repeat("b", 64)})
}

// An address or a boot id of another form is not sent, and not accepted.
func TestVerdictWithMalformedAddress(t *testing.T) {
	f := func(name, value string, send func(*hop.Verdict)) {
		t.Helper()
		v := hop.Verdict{Kind: hop.VerdictMoved, To: "ams-2"}
		send(&v)
		if got := v.String(); got != "moved;to=ams-2" {
			t.Errorf("%s %q is sent as %q", name, value, got)
		}
		if got, err := hop.ParseVerdict("moved;to=ams-2;" + name + "=" + value); err == nil {
			t.Errorf("%s %q is read as %+v", name, value, got)
		}
	}
	for _, bad := range []string{
		"ams-2", ":8443", "ams-2:", "ams-2:0", "ams-2:08443", "ams-2:65536", "ams-2:+1", "ams-2:http", "::1:8443", "[ams-2]:8443", "[fe80::1%eth0]:8443",
		"user@ams-2:8443", "ams-2/path:8443", "ams 2:8443", "ams=2:8443", "\u00e4ms:8443", "http://ams-2:8443", strings.Repeat("a", 254) + ":8443",
	} {
		f("at", bad, func(v *hop.Verdict) { v.Address = bad })
	}
	for _, bad := range []string{"a b", "a=b", "a/b", "\u00e4", strings.Repeat("b", 65)} {
		f("boot", bad, func(v *hop.Verdict) { v.Boot = bad })
	}
	if v, err := hop.ParseVerdict("moved;to=ams-2;at=;boot="); err == nil {
		t.Errorf("an empty address is read as %+v", v)
	}
}

func FuzzVerdict(f *testing.F) {
	f.Add("ooc;reason=queue_full;number=42902;retry_after_ms=1250;expected_ms=90;may_wait=1")
	f.Add("moved;reason=moved;to=ams-2;at=[::1]:8443;boot=ABC;revision=7;waited=1;new=x")
	f.Fuzz(func(t *testing.T, s string) {
		v, err := hop.ParseVerdict(s)
		if err != nil {
			return
		}
		if again, err := hop.ParseVerdict(v.String()); err != nil || again != v {
			t.Errorf("%q is %+v, and then %+v, %v", s, v, again, err)
		}
	})
}

func TestVerdictOfAnotherVersion(t *testing.T) {
	got, err := hop.ParseVerdict("ooc;reason=busy;brand_new=7;of=ams-3;size=99999999999999;retry_after_ms=1000")
	if want := (hop.Verdict{Kind: hop.VerdictOOC, Reason: "busy", RetryAfter: time.Second}); err != nil || got != want {
		t.Errorf("ParseVerdict = %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "ok", "ooc;retry_after_ms=soon", "ooc;number=99999999999999", "moved;revision=new"} {
		if v, err := hop.ParseVerdict(bad); err == nil {
			t.Errorf("ParseVerdict(%q) = %+v, want an error", bad, v)
		}
	}
}

func TestLoadRoundTrip(t *testing.T) {
	same := func(free, held, limit, queued int16, ms, engines uint16, known bool) bool {
		want := hop.Load{Free: int(free), Held: int(held), Limit: int(limit), Queued: int(queued), Known: known, Engines: uint32(engines)}
		if known {
			want.Expected = time.Duration(ms) * time.Millisecond
		}
		got, err := hop.ParseLoad(want.String())
		return err == nil && got == want
	}
	if err := quick.Check(same, nil); err != nil {
		t.Error(err)
	}
}
