package admission

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// An endpoint without a lease is used while it is healthy, and has departed when its health check fails too.
func TestDeparted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, p := newDocuments(t), &probes{}
		d := runManager(t, p)
		table := docs.table(endpoints("a", 2, "one", "two", "three"))
		table.ExpiredLeases = []string{"endpoints/ams/one", "endpoints/ams/two"}
		d.Apply(table)
		want := func(want ...string) {
			t.Helper()
			time.Sleep(time.Minute)
			got := d.DeadEndpoints()
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("departed %q, want %q", got, want)
			}
		}
		want()
		if l := mustPool(t, d, "a").Load(); l.Limit != 6 {
			t.Errorf("limit %d, want the slots of suspects too", l.Limit)
		}
		p.set("one", errors.New("refused"))
		p.set("three", errors.New("refused"))
		want("endpoints/ams/one")
		p.set("one", nil)
		want()
		p.set("two", errors.New("refused"))
		want("endpoints/ams/two")
		again := docs.table(endpoints("a", 2, "one", "two", "three")) // registered again
		d.Apply(again)
		want()
	})
}

// One failed probe takes a new endpoint down, and is not enough to take its document away.
func TestStrangerHasNotDeparted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, p := newDocuments(t), &probes{}
		d := runManager(t, p)
		p.set("one", errors.New("refused"))
		table := docs.table(endpoints("a", 2, "one"))
		table.ExpiredLeases = []string{"endpoints/ams/one"}
		d.Apply(table)
		synctest.Wait()
		if keys := d.DeadEndpoints(); len(keys) > 0 || mustPool(t, d, "a").Load().Limit != 0 {
			t.Errorf("departed %q after one failed probe", keys)
		}
		time.Sleep(2 * time.Second)
		if keys := d.DeadEndpoints(); len(keys) != 1 {
			t.Errorf("departed %q after two", keys)
		}
	})
}
