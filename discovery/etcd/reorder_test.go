package etcd

import (
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// toldBy is a response of one watch: events of these revisions, or, without any, progress.
func toldBy(kind string, header int64, revisions ...int64) kindResponse {
	r := kindResponse{clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: header}}, kind}
	for _, revision := range revisions {
		r.Events = append(r.Events, &clientv3.Event{Kv: &mvccpb.KeyValue{ModRevision: revision}})
	}
	return r
}

func TestHorizon(t *testing.T) {
	now := time.Unix(1000, 0)
	const most = time.Second
	h := newReorderBuffer([]string{"models/", "pools/"}, 10, most)
	expect := func(taken []bufferedEvent, known int64, want ...int64) {
		t.Helper()
		var got []int64
		for _, e := range taken {
			got = append(got, e.Kv.ModRevision)
		}
		if !slices.Equal(got, want) || h.completeRevision(20) != known {
			t.Errorf("took %v, knows all up to %d; want %v, %d", got, h.completeRevision(20), want, known)
		}
	}
	expect(h.add(toldBy("models/", 12, 11, 12), now), 10)
	expect(h.add(toldBy("pools/", 11), now), 11, 11)
	expect(h.add(toldBy("pools/", 14, 12, 14), now), 13, 12, 12)
	expect(h.add(toldBy("models/", 13), now), 13)
	expect(h.add(toldBy("models/", 15, 15), now), 14, 14)
	// A watch that says nothing does not hold up the others for ever.
	expect(h.add(toldBy("models/", 16, 16), now.Add(most/2)), 14)
	expect(h.releaseOverdue(now.Add(most-1)), 14)
	expect(h.releaseOverdue(now.Add(most)), 20, 15, 16)
	expect(h.releaseOverdue(now.Add(time.Hour)), 20)
	if _, some := h.nextRequest(now); some {
		t.Error("something still waits")
	}
}
