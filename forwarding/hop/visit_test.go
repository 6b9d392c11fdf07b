package hop_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/hop"
)

func TestVisitsRoundTrip(t *testing.T) {
	f := func(want ...hop.Visit) {
		t.Helper()
		got, err := hop.ParseVisits(hop.FormatVisits(want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("ParseVisits(%q) = %+v, %v; want %+v", hop.FormatVisits(want), got, err, want)
		}
	}
	ooc := hop.Visit{
		Colo: "ams", Node: "ams-1",
		Verdict: hop.Verdict{Kind: hop.VerdictOOC, Reason: "queue_full", Number: 42902, RetryAfter: 1250 * time.Millisecond, MayWait: true},
		Load:    hop.Load{Held: 4, Limit: 4, Queued: 9, Expected: 90 * time.Millisecond, Known: true}, HasLoad: true,
		Queued: 12 * time.Millisecond, Attempts: 2,
	}
	moved := hop.Visit{Colo: "fra", Node: "f.1:a@b+c-d", Verdict: hop.Verdict{
		Kind: hop.VerdictMoved, Reason: "moved", To: "fra-2", Address: "[2001:db8::7]:8443", Boot: "ABC", Revision: 1 << 40,
	}}
	f()
	f(ooc)
	f(hop.Visit{Colo: "ams", Node: "ams-1", Verdict: hop.Verdict{Kind: hop.VerdictOOC}, HasLoad: true})
	f(ooc, moved, hop.Visit{Colo: "iad", Node: "iad-1", Verdict: hop.Verdict{Kind: hop.VerdictLost}},
		hop.Visit{Colo: "iad", Node: "iad-2", Verdict: hop.Verdict{Kind: hop.VerdictUnread, Reason: "connect_failed"}},
		hop.Visit{Colo: "sin", Node: "sin-1", Verdict: hop.Verdict{Kind: hop.VerdictError, Reason: "no_answer", EndpointsFailed: 1, Final: true}})
}

// A server cannot say about itself that it was lost.
func TestVerdictsOfVisitsOnly(t *testing.T) {
	for _, kind := range []hop.VerdictKind{hop.VerdictLost, hop.VerdictUnread} {
		if v, err := hop.ParseVerdict(string(kind)); err == nil {
			t.Errorf("the verdict of an answer is read as %+v", v)
		}
	}
}

func TestMalformedVisits(t *testing.T) {
	const good = "ams/ams-1|ooc|free=1|queued_ms=1"
	if _, err := hop.ParseVisits(good); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 128)
	for _, bad := range []string{
		"ams/ams-1", "ams/ams-1|ooc", "ams/ams-1|ooc|", "ams-1|ooc||", "/ams-1|ooc||", "ams/|ooc||", "ams/a/b|ooc||", "ams/-a|ooc||", "a ms/a|ooc||",
		"ams/\u00e4|ooc||", "ams/" + long + "x|ooc||", "ams/ams-1|||", "ams/ams-1|served||", "ams/ams-1|ooc;number=x||", "ams/ams-1|ooc;reason=a b||",
		"ams/ams-1|ooc;reason=" + long + "||", "ams/ams-1|moved;to=a/b||", "ams/ams-1|moved;at=h||", "ams/ams-1|ooc|free=x|", "ams/ams-1|ooc|x|",
		"ams/ams-1|ooc||queued_ms=-1", "ams/ams-1|ooc||attempts=x", "ams/ams-1|ooc||attempts=9999999999",
		good + ",", "," + good, good + ", " + good, good + ",,",
		strings.Repeat(good+",", 16) + good,
		good + strings.Repeat(";a", 4<<10),
	} {
		if got, err := hop.ParseVisits(bad); err == nil {
			t.Errorf("ParseVisits(%.60q) = %+v", bad, got)
		}
	}
}

// A later version may add fields and parts.
func TestVisitsOfAnotherVersion(t *testing.T) {
	got, err := hop.ParseVisits("ams/ams-1|ooc;new=x|free=1;new=2|new;attempts=3;other=x|more=1")
	want := []hop.Visit{{Colo: "ams", Node: "ams-1", Verdict: hop.Verdict{Kind: hop.VerdictOOC}, Load: hop.Load{Free: 1}, HasLoad: true, Attempts: 3}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ParseVisits = %+v, %v; want %+v", got, err, want)
	}
}

// Whatever a server is asked to write, the header that it writes can be read.
func TestVisitsThatCannotBeWritten(t *testing.T) {
	f := func(want int, visits ...hop.Visit) {
		t.Helper()
		s := hop.FormatVisits(visits)
		if got, err := hop.ParseVisits(s); err != nil || len(got) != want {
			t.Errorf("%.200q is read as %d visits, %v; want %d", s, len(got), err, want)
		}
	}
	visit := func(v hop.Verdict) hop.Visit { return hop.Visit{Colo: "ams", Node: "ams-1", Verdict: v} }
	good := visit(hop.Verdict{Kind: hop.VerdictOOC})
	f(1, good, visit(hop.Verdict{}), visit(hop.Verdict{Kind: "served"}))
	f(1, hop.Visit{Node: "ams-1", Verdict: good.Verdict}, hop.Visit{Colo: "a,b", Node: "c", Verdict: good.Verdict}, good)
	f(1, visit(hop.Verdict{Kind: hop.VerdictMoved, Reason: "a|b", To: "c,d", Address: "e", Boot: "f|g"}))
	f(1, hop.Visit{Colo: "ams", Node: "ams-1", Verdict: good.Verdict, Queued: -time.Second, Attempts: -1})
	var many, large []hop.Visit
	for i := range 40 {
		many = append(many, hop.Visit{Colo: "ams", Node: fmt.Sprintf("ams-%d", i), Verdict: good.Verdict})
		large = append(large, hop.Visit{
			Colo: strings.Repeat("c", 128), Node: strings.Repeat("n", 128),
			Verdict: hop.Verdict{Kind: hop.VerdictMoved, To: strings.Repeat("t", 128), Address: strings.Repeat("a", 253) + ":1", Boot: strings.Repeat("b", 64)},
		})
	}
	f(16, many...)
	f(10, large...)
}

// Visits that can be parsed are written so that they parse to the same again.
func FuzzVisits(f *testing.F) {
	for _, s := range []string{
		"", "ams/ams-1|ooc;reason=queue_full;number=42902;retry_after_ms=1250|free=0;held=4;limit=4;queued=9;expected_ms=90|queued_ms=12;attempts=1",
		"ams/ams-1|moved;to=ams-2;at=[::1]:8443;boot=ABC;revision=7||,fra/f|lost||queued_ms=1,iad/i|unread||attempts=0|new", "a/b|error;final=1|x=1|y",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		visits, err := hop.ParseVisits(s)
		if err != nil {
			return
		}
		written := hop.FormatVisits(visits)
		if strings.ContainsAny(written, "\r\n \x00") {
			t.Errorf("%q is written as %q", s, written)
		}
		again, err := hop.ParseVisits(written)
		if err != nil || len(s) < 4<<10 && !reflect.DeepEqual(again, visits) {
			t.Errorf("%q is %+v, then %+v, %v", s, visits, again, err)
		}
	})
}
