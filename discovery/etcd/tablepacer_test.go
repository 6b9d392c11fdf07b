package etcd

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// followTest is a watcher that follows responses of a test. Its clock is that of a synctest bubble.
type followTest struct {
	*follower
	revision int64
}

// follow runs f with a watcher that has built its first table long ago.
func follow(t *testing.T, f func(*testing.T, *followTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := NewWatcher(Config{})
		cache := newCache(w.config)
		defer cache.close(w.takeSnapshot)
		w.publish(1, cache)
		time.Sleep(time.Second)
		s := &followTest{revision: 1, follower: &follower{
			watcher: w, cache: cache, heard: map[string]time.Time{"": time.Now()}, responses: make(chan kindResponse, maxBatch),
			buffer: newReorderBuffer([]string{""}, 1, w.reorderTimeout()),
		}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.loop(ctx) }()
		f(t, s)
		cancel()
		<-ended
	})
}

// send sends a response with changes of n accounts, each of another transaction.
func (s *followTest) send(n int) {
	revisions := make([]int64, n)
	for i := range revisions {
		s.revision++
		revisions[i] = s.revision
	}
	s.sendAt(revisions...)
}

// sendAt sends a response with the accounts that were put at these revisions.
func (s *followTest) sendAt(revisions ...int64) {
	r := clientv3.WatchResponse{}
	for _, revision := range revisions {
		r.Events = append(r.Events, &clientv3.Event{Type: clientv3.EventTypePut, Kv: &mvccpb.KeyValue{
			Key: fmt.Appendf(nil, "accounts/a%d", revision), Value: []byte("{}"), ModRevision: revision, CreateRevision: revision,
		}})
	}
	r.Header = &etcdserverpb.ResponseHeader{Revision: s.revision}
	s.responses <- kindResponse{r, ""}
}

// built returns how many tables have been built since the first, once all is quiet.
func (s *followTest) built() uint64 {
	synctest.Wait()
	return s.watcher.State().Tables - 1
}

// inTable returns how many accounts the table has.
func (s *followTest) inTable() int {
	synctest.Wait()
	return len(s.watcher.Table().Accounts())
}

func TestOneChangeIsInTheTableSoon(t *testing.T) {
	follow(t, func(t *testing.T, s *followTest) {
		for n := range 3 {
			s.send(1)
			time.Sleep(settleTime)
			if s.inTable() != n+1 || s.built() != uint64(n+1) {
				t.Errorf("%d changes, of which %d are in the table after %v; %d tables", n+1, s.inTable(), settleTime, s.built())
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// Changes of one response, of several at once, and of some within milliseconds are in one table.
func TestChangesThatArriveTogetherAreInOneTable(t *testing.T) {
	follow(t, func(t *testing.T, s *followTest) {
		s.send(100)
		s.send(100)
		for range 8 {
			time.Sleep(time.Millisecond)
			s.send(1)
		}
		time.Sleep(100 * time.Millisecond)
		if s.built() != 1 || s.inTable() != 208 {
			t.Errorf("%d tables, %d accounts; want 1 and 208", s.built(), s.inTable())
		}
	})
}

// An event that changes nothing, as at the start of each watch, does not make the table of later changes due at once.
func TestEventsWithoutChangeAreNotCounted(t *testing.T) {
	follow(t, func(t *testing.T, s *followTest) {
		s.send(1)
		time.Sleep(time.Second)
		s.sendAt(s.revision)
		time.Sleep(time.Second)
		for range 8 {
			s.send(1)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond)
		if s.built() != 2 || s.inTable() != 9 {
			t.Errorf("%d tables, %d accounts; want 2 and 9", s.built(), s.inTable())
		}
	})
}

// A constant stream of changes delays none for long, and does not build a table for each.
func TestConstantStreamOfChanges(t *testing.T) {
	follow(t, func(t *testing.T, s *followTest) {
		const changes = 3000
		for range changes {
			s.send(1)
			time.Sleep(time.Millisecond)
			if late := int(s.revision-1) - s.inTable(); late > int((minTableInterval+maxSettleTime)/time.Millisecond) {
				t.Fatalf("%d changes of a millisecond each are not in the table", late)
			}
		}
		if n := s.built(); n < changes/40 || n > changes/20 {
			t.Errorf("%d tables for %d changes in as many milliseconds", n, changes)
		}
	})
}

func TestTablePacer(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d * time.Millisecond) }
	f := func(took, want time.Duration, changes ...time.Duration) {
		t.Helper()
		var p tablePacer
		p.built(at(-took), start)
		for _, c := range changes {
			p.change(at(c))
		}
		if got := p.due().Sub(start); got != want*time.Millisecond {
			t.Errorf("a table that took %d ms, changes after %v: due after %v, want %d ms", took, changes, got, want)
		}
	}
	f(0, 20)
	f(0, 105, 100)
	f(0, 108, 100, 103)
	f(0, 115, 100, 104, 108, 112)
	f(0, 20, 3)
	f(7, 70, 3)
	f(7, 105, 100)
	f(90, 200, 3, 100)
}
