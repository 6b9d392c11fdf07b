package hop_test

import (
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
	f(hop.Verdict{Kind: hop.VerdictOOC, Reason: "queue_full", Number: 42902, RetryAfter: 1250 * time.Millisecond, Expected: 90 * time.Millisecond})
	f(hop.Verdict{Kind: hop.VerdictError, Reason: "no_answer", Number: 50001, RetriesMade: 2, EndpointsFailed: 1, Final: true})
	f(hop.Verdict{Kind: hop.VerdictMoved})
	f(hop.Verdict{Kind: hop.VerdictError, Reason: "connect_failed", Number: 50001, Unsent: true})
	f(hop.Verdict{Kind: hop.VerdictMoved, Reason: "moved", To: "ams-2", Revision: 1 << 40, Waited: true})
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
	same := func(free, held, limit, queued int16, ms uint16, known bool) bool {
		want := hop.Load{Free: int(free), Held: int(held), Limit: int(limit), Queued: int(queued), Known: known}
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
