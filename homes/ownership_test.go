package homes_test

import (
	"maps"
	"testing"
	"time"

	"colonnade/homes"
)

const engine = "http://10.0.0.7:8000"

var (
	self  = homes.Process{Node: "ams-1", Boot: "A"}
	other = homes.Process{Node: "ams-2", Boot: "B"}
	start = time.Unix(1000, 0)
)

// registered returns the ownership of a process that has registered at revision 10, wants the engine, and has seen that.
func registered(t *testing.T) *homes.Ownership {
	t.Helper()
	o := homes.NewOwnership(self, 5*time.Second)
	o.Registered(nil)
	o.Want(map[string]bool{engine: true}, start)
	observe(t, o, homes.Change{Revision: 10, Listed: true, Put: []homes.Record{{Process: self, Revision: 10}}})
	return o
}

func observe(t *testing.T, o *homes.Ownership, c homes.Change) {
	t.Helper()
	if !o.Observe(c, false, start) {
		t.Fatalf("Observe(%+v) says that the process must register again", c)
	}
}

// put puts what the ownership has to put, as of a revision.
func put(t *testing.T, o *homes.Ownership, held map[string]int, revision int64) homes.Put {
	t.Helper()
	next, _, ok := o.Next(held, nil)
	if !ok {
		t.Fatal("there is nothing to put")
	}
	o.PutStands(next, revision, start)
	return next
}

// seen is the record of a process that owns these engines, as of a revision.
func seen(p homes.Process, revision int64, owns ...string) homes.Record {
	r := homes.Record{Process: p, Revision: revision, Owns: map[string]int{}}
	for _, url := range owns {
		r.Owns[url] = 0
	}
	return r
}

func TestGrantsOnceItsOwnEntryHasComeBack(t *testing.T) {
	o := registered(t)
	put(t, o, nil, 12)
	if o.Grants(engine) {
		t.Fatal("grants before its own entry has come back")
	}
	observe(t, o, homes.Change{Revision: 12, Put: []homes.Record{seen(self, 12, engine)}})
	if !o.Grants(engine) {
		t.Fatal("does not grant though its entry has come back and no other record owns the engine")
	}
}

func TestLaterOfTwoClaimsWaits(t *testing.T) {
	o := registered(t)
	put(t, o, nil, 12)
	observe(t, o, homes.Change{Revision: 11, Put: []homes.Record{seen(other, 11, engine)}})
	observe(t, o, homes.Change{Revision: 12, Put: []homes.Record{seen(self, 12, engine)}})
	if o.Grants(engine) {
		t.Fatal("grants though an earlier record owns the engine")
	}
	if s := o.State(engine); s.State != homes.StateWanted || s.BlockedBy != other.String() {
		t.Errorf("State = %+v, want wanted, blocked by %s", s, other)
	}
	given := seen(other, 15)
	given.Held = map[string]int{engine: 3}
	observe(t, o, homes.Change{Revision: 15, Put: []homes.Record{given}})
	if got := o.Shares(); !maps.Equal(got, map[string]homes.Share{engine: {Taken: 3}}) {
		t.Errorf("Shares = %v, want the engine with three slots taken", got)
	}
}

func TestEarlierOfTwoClaimsKeepsItsRight(t *testing.T) {
	o := registered(t)
	put(t, o, nil, 12)
	observe(t, o, homes.Change{Revision: 12, Put: []homes.Record{seen(self, 12, engine)}})
	observe(t, o, homes.Change{Revision: 13, Put: []homes.Record{seen(other, 13, engine)}})
	if !o.Grants(engine) {
		t.Error("has lost its right to a later record")
	}
}

func TestGivingUpPutsWhatIsHeldUntilItIsNothing(t *testing.T) {
	o := registered(t)
	put(t, o, nil, 12)
	observe(t, o, homes.Change{Revision: 12, Put: []homes.Record{seen(self, 12, engine)}})
	o.Want(map[string]bool{engine: false}, start)
	if o.Grants(engine) {
		t.Fatal("grants on an engine that it does not want any more")
	}
	for revision, held := range []int{2, 1, 0} {
		next := put(t, o, map[string]int{engine: held}, int64(20+revision))
		if len(next.Owns) > 0 || next.Held[engine] != held {
			t.Errorf("puts %+v, want nothing owned, %d held", next, held)
		}
	}
	if _, _, ok := o.Next(nil, nil); ok {
		t.Error("puts again though nothing is held any more")
	}
}

// The put that gave the engine up has had no answer: until a later put is known to stand, it may yet take place.
func TestNothingIsTakenUpBeforeALaterPutStands(t *testing.T) {
	o := registered(t)
	put(t, o, nil, 12)
	observe(t, o, homes.Change{Revision: 12, Put: []homes.Record{seen(self, 12, engine)}})
	o.Want(map[string]bool{engine: false}, start)
	_, _, _ = o.Next(nil, nil)
	o.PutUnanswered()
	o.Want(map[string]bool{engine: true}, start)
	observe(t, o, homes.Change{Revision: 13, Put: []homes.Record{seen(other, 13)}})
	if o.Grants(engine) {
		t.Fatal("grants by the entry of before")
	}
	next, required, ok := o.Next(nil, nil)
	if !ok || !required {
		t.Fatal("does not put again after a put without an answer")
	}
	o.PutStands(next, 14, start)
	observe(t, o, homes.Change{Revision: 14, Put: []homes.Record{seen(self, 14, engine)}})
	if !o.Grants(engine) {
		t.Error("does not grant though a later put stands and has come back")
	}
}

func TestRegisteringAgainEndsAllRights(t *testing.T) {
	o := registered(t)
	put(t, o, nil, 12)
	observe(t, o, homes.Change{Revision: 12, Put: []homes.Record{seen(self, 12, engine)}})
	late, _, _ := o.Next(map[string]int{"http://10.0.0.9:8000": 1}, nil)
	o.Lose()
	if o.Grants(engine) {
		t.Fatal("grants while it registers again")
	}
	o.Registered(map[string]int{engine: 2})
	o.PutStands(late, 13, start) // the put was under way when the process registered again
	observe(t, o, homes.Change{Revision: 13, Put: []homes.Record{seen(self, 13, engine)}})
	if o.Grants(engine) {
		t.Fatal("grants by an entry that it had put before it registered again")
	}
	if next, _, _ := o.Next(map[string]int{engine: 2}, nil); next.Held[engine] != 2 {
		t.Errorf("puts %v held, want two until it grants there", next.Held)
	}
}

func TestRecordThatIsNotAsPutEndsAllRights(t *testing.T) {
	for name, c := range map[string]homes.Change{
		"deleted":  {Revision: 20, Deleted: []homes.Process{self}},
		"changed":  {Revision: 20, Put: []homes.Record{seen(self, 20)}},
		"older":    {Revision: 20, Listed: true, Put: []homes.Record{seen(self, 11, engine)}},
		"restored": {Revision: 9, Listed: true, Restored: true, Put: []homes.Record{seen(self, 9, engine)}},
	} {
		o := registered(t)
		put(t, o, nil, 12)
		observe(t, o, homes.Change{Revision: 12, Put: []homes.Record{seen(self, 12, engine)}})
		if o.Observe(c, false, start) || o.Grants(engine) {
			t.Errorf("%s: goes on granting", name)
		}
	}
}

func TestNothingNewIsOwnedForATTLAfterARestore(t *testing.T) {
	o := registered(t)
	o.Observe(homes.Change{Revision: 5, Listed: true, Restored: true}, false, start)
	o.Registered(nil)
	put(t, o, nil, 6)
	observe(t, o, homes.Change{Revision: 6, Put: []homes.Record{seen(self, 6, engine)}})
	if o.Grants(engine) {
		t.Fatal("grants at once after the store was restored")
	}
	if o.Resume(start.Add(4 * time.Second)) {
		t.Error("resumes before the TTL has passed")
	}
	if !o.Resume(start.Add(5*time.Second)) || !o.Grants(engine) {
		t.Error("does not grant after the TTL has passed")
	}
}

func TestRightsLostByARestoreComeBackWithoutCompany(t *testing.T) {
	o := registered(t)
	o.Restored(false, start)
	if o.Observe(homes.Change{Revision: 5, Listed: true, Restored: true}, true, start) {
		t.Error("does not register again, though it has lost its rights")
	}
}

func TestAssumedRightsEndWithCompany(t *testing.T) {
	o := homes.NewOwnership(self, 5*time.Second)
	o.Want(map[string]bool{engine: true}, start)
	o.Assume()
	if !o.Grants(engine) {
		t.Fatal("does not grant though it knows of no other server")
	}
	o.Observe(homes.Change{Revision: 3, Listed: true, Put: []homes.Record{seen(other, 2, engine)}}, false, start)
	if o.Grants(engine) {
		t.Error("goes on granting beside another server")
	}
}

func TestEngineThatIsWantedAgainBeforeAPutIsPutAgain(t *testing.T) {
	o := registered(t)
	put(t, o, nil, 12)
	observe(t, o, homes.Change{Revision: 12, Put: []homes.Record{seen(self, 12, engine)}})
	o.Want(map[string]bool{engine: false}, start)
	o.Want(map[string]bool{engine: true}, start)
	put(t, o, nil, 13)
	observe(t, o, homes.Change{Revision: 13, Put: []homes.Record{seen(self, 13, engine)}})
	if !o.Grants(engine) {
		t.Error("does not grant any more on an engine that it has wanted again")
	}
}
