package etcd

import (
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// watchResponse is a response of one watch: events of these revisions, or progress without any.
func watchResponse(kind string, header int64, revisions ...int64) kindResponse {
	r := kindResponse{clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: header}}, kind}
	for _, revision := range revisions {
		r.Events = append(r.Events, &clientv3.Event{Kv: &mvccpb.KeyValue{ModRevision: revision}})
	}
	return r
}

// Events come in the order of the store, once all watches have reached their revisions, or after the longest wait.
func TestReorderBufferKeepsOrderOfStore(t *testing.T) {
	now := time.Unix(1000, 0)
	const maxWait = time.Second
	b := newReorderBuffer([]string{"models/", "pools/"}, 10, maxWait)
	expect := func(taken []bufferedEvent, known int64, want ...int64) {
		t.Helper()
		var got []int64
		for _, e := range taken {
			got = append(got, e.Kv.ModRevision)
		}
		if !slices.Equal(got, want) || b.completeRevision(20) != known {
			t.Errorf("took %v, knows all up to %d; want %v, %d", got, b.completeRevision(20), want, known)
		}
	}
	expect(b.add(watchResponse("models/", 12, 11, 12), now), 10)
	expect(b.add(watchResponse("pools/", 11), now), 11, 11)
	expect(b.add(watchResponse("pools/", 14, 12, 14), now), 13, 12, 12)
	expect(b.add(watchResponse("models/", 13), now), 13)
	expect(b.add(watchResponse("models/", 15, 15), now), 14, 14)
	// A watch without progress does not delay the others for ever.
	expect(b.add(watchResponse("models/", 16, 16), now.Add(maxWait/2)), 14)
	expect(b.releaseOverdue(now.Add(maxWait-1)), 14)
	expect(b.releaseOverdue(now.Add(maxWait)), 20, 15, 16)
	expect(b.releaseOverdue(now.Add(time.Hour)), 20)
	if _, some := b.nextRequest(now); some {
		t.Error("something still waits")
	}
}

// One watch that is silent for too long ends the round, although the others are not.
func TestEachWatchTimesOut(t *testing.T) {
	now := time.Unix(1000, 0)
	f := func(silent, want time.Duration) {
		t.Helper()
		follower := follower{watcher: NewWatcher(Config{WatchTimeout: 15 * time.Second}),
			heard: map[string]time.Time{"models/": now, "pools/": now.Add(-silent), "colos/": now.Add(-time.Second)}}
		if got := follower.untilTimeout(now); got != want {
			t.Errorf("silent for %v: timeout in %v, want %v", silent, got, want)
		}
	}
	f(0, 14*time.Second)
	f(10*time.Second, 5*time.Second)
	f(15*time.Second, 0)
}
