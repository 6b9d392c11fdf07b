package homes_test

import (
	"maps"
	"testing"
	"time"

	"colonnade/homes"
)

func orphaned(r homes.Record) *homes.Orphans {
	o := homes.NewOrphans()
	o.Update([]homes.Record{r}, func(homes.Process) bool { return false }, start)
	return o
}

// settled returns the settlements at some time after the start, to a server that has looked at the records all the time.
func settled(o *homes.Orphans, after time.Duration) []homes.Settlement {
	for at := time.Second; at < after; at += time.Second {
		o.Due(start.Add(at))
	}
	return o.Settle(start.Add(after))
}

func TestRegisteredProcessIsNoOrphan(t *testing.T) {
	o := homes.NewOrphans()
	o.Update([]homes.Record{seen(other, 5, engine)}, func(homes.Process) bool { return true }, start)
	if len(o.Due(start)) > 0 || len(settled(o, time.Hour)) > 0 {
		t.Error("a registered process is asked, or its record is settled")
	}
}

func TestSilentProcessIsWrittenOff(t *testing.T) {
	o := orphaned(seen(other, 5, engine))
	if got := settled(o, homes.SilentHold-time.Millisecond); len(got) > 0 {
		t.Fatalf("settles %+v before the process has been silent for long enough", got)
	}
	got := settled(o, homes.SilentHold)
	if len(got) != 1 || !got[0].WrittenOff || got[0].New != nil {
		t.Errorf("settles %+v, want the record written off", got)
	}
}

func TestSilenceBeginsAnewAfterAStandstill(t *testing.T) {
	o := orphaned(seen(other, 5, engine))
	o.Due(start)
	if got := o.Settle(start.Add(time.Minute)); len(got) > 0 {
		t.Errorf("settles %+v, which was not looked at for a minute", got)
	}
}

func TestAnswerCountsForItsRecordOnly(t *testing.T) {
	o := orphaned(seen(other, 5, engine))
	o.Answered(other, start, homes.Answer{Boot: "B", Held: map[string]int{engine: 1}})
	o.Update([]homes.Record{seen(other, 7, engine)}, func(homes.Process) bool { return false }, start)
	if got := settled(o, time.Second); len(got) > 0 {
		t.Errorf("settles %+v by an answer of before the process put its record again", got)
	}
}

func TestEverySignOfLifeDelaysTheWriteOff(t *testing.T) {
	heard := start.Add(8 * time.Second)
	for name, hear := range map[string]func(*homes.Orphans){
		"answer":   func(o *homes.Orphans) { o.Answered(other, heard, homes.Answer{Boot: "B", MayGrant: true}) },
		"question": func(o *homes.Orphans) { o.Alive(other, heard) },
	} {
		o := orphaned(seen(other, 5, engine))
		hear(o)
		if got := settled(o, 17*time.Second); len(got) > 0 {
			t.Errorf("%s: settles %+v 9 s after the process was heard", name, got)
		}
		if got := settled(o, 18*time.Second); len(got) != 1 || !got[0].WrittenOff {
			t.Errorf("%s: settles %+v 10 s after the process was heard, want it written off", name, got)
		}
	}
}

func TestEndedProcessIsSettledWhenEnginesHaveNoticed(t *testing.T) {
	for name, end := range map[string]func(*homes.Orphans){
		"refused":   func(o *homes.Orphans) { o.Ended(other, start) },
		"successor": func(o *homes.Orphans) { o.Answered(other, start, homes.Answer{Boot: "C", Ended: []string{"B"}}) },
	} {
		o := orphaned(seen(other, 5, engine))
		end(o)
		if got := settled(o, 249*time.Millisecond); len(got) > 0 {
			t.Errorf("%s: settles %+v before engines have noticed", name, got)
		}
		if got := settled(o, 250*time.Millisecond); len(got) != 1 || got[0].WrittenOff || got[0].New != nil {
			t.Errorf("%s: settles %+v, want the record deleted", name, got)
		}
	}
}

func TestOtherProcessAtTheAddressProvesNothing(t *testing.T) {
	o := orphaned(seen(other, 5, engine))
	o.Answered(other, start.Add(9*time.Second), homes.Answer{Boot: "C"})
	if got := settled(o, homes.SilentHold); len(got) != 1 || !got[0].WrittenOff {
		t.Errorf("settles %+v: the answer of another process counts for the one that is missing", got)
	}
}

func TestAnswerReplacesTheRecord(t *testing.T) {
	o := orphaned(seen(other, 5, engine))
	o.Answered(other, start, homes.Answer{Boot: "B", Held: map[string]int{engine: 2}})
	got := settled(o, 0)
	if len(got) != 1 || got[0].New == nil || len(got[0].New.Owns) > 0 || !maps.Equal(got[0].New.Held, map[string]int{engine: 2}) {
		t.Fatalf("settles %+v, want nothing owned, two held", got)
	}
	o.Update([]homes.Record{*got[0].New}, func(homes.Process) bool { return false }, start)
	if again := settled(o, time.Second); len(again) > 0 {
		t.Errorf("settles %+v though nothing has changed", again)
	}
	o.Answered(other, start.Add(time.Second), homes.Answer{Boot: "B"})
	if last := settled(o, time.Second); len(last) != 1 || last[0].New != nil || last[0].WrittenOff {
		t.Errorf("settles %+v, want the record deleted, since nothing is held any more", last)
	}
}

func TestUnreadableRecordIsNotWrittenOff(t *testing.T) {
	r := seen(other, 5, engine)
	r.Problem = "owns: version 9 is not one of 1 to 1"
	o := orphaned(r)
	if got := settled(o, time.Hour); len(got) > 0 {
		t.Errorf("settles %+v: more may be owned than can be read", got)
	}
	o.Ended(other, start)
	if got := settled(o, time.Hour); len(got) != 1 {
		t.Errorf("settles %+v though the process has ended, want the record deleted", got)
	}
}

func TestProcessIsAskedAtOnceAndThenEveryHalfSecond(t *testing.T) {
	o := orphaned(seen(other, 5, engine))
	if got := o.Due(start); len(got) != 1 {
		t.Fatalf("asks %d processes at once, want 1", len(got))
	}
	if got := o.Due(start.Add(499 * time.Millisecond)); len(got) > 0 {
		t.Error("asks again too soon")
	}
	if got := o.Due(start.Add(500 * time.Millisecond)); len(got) != 1 {
		t.Error("does not ask again")
	}
}

func TestWordsOfAllSiblingsAreNeeded(t *testing.T) {
	v := homes.NewVouchers(4500 * time.Millisecond)
	both := []string{"ams-2", "ams-3"}
	v.Vouch("ams-2", start)
	if !v.Until(both).IsZero() {
		t.Error("goes on without the word of ams-3")
	}
	v.Vouch("ams-3", start.Add(time.Second))
	if got := v.Until(both); !got.Equal(start.Add(4500 * time.Millisecond)) {
		t.Errorf("goes on until %s, want as long as the oldest word holds", got)
	}
	v.Deny("ams-2")
	if !v.Until(both).IsZero() {
		t.Error("goes on though ams-2 reaches the store")
	}
	v.Vouch("ams-2", start.Add(2*time.Second))
	v.Questioned(start.Add(2 * time.Second))
	if !v.Until(both).IsZero() {
		t.Error("goes on though another server has found it not registered")
	}
	v.Confirm(start.Add(time.Second))
	if !v.Until(both).IsZero() {
		t.Error("a confirmation of before the question counts")
	}
	v.Confirm(start.Add(3 * time.Second))
	if v.Until(both).IsZero() {
		t.Error("does not go on after the store has confirmed the registration since")
	}
}
