package transport

import (
	"log/slog"
	"testing"
	"time"
)

// A connection that has served one account serves another only once it has been silent for a while; the latest one first.
func TestWhoTakesAConnection(t *testing.T) {
	t.Parallel()
	now := time.Now()
	old, mine, foreign := now.Add(-handoverSilence-time.Second), now.Add(time.Minute), now.Add(time.Hour)
	oldest := &conn{account: "other", idleSince: old.Add(-time.Second)}
	settled := &conn{account: "other", idleSince: old}
	own := &conn{account: "me", idleSince: mine}
	last := &conn{account: "other", idleSince: foreign}
	i := &idleConns{logger: slog.New(slog.DiscardHandler), lists: map[Target]*idleList{{}: {conns: []*conn{oldest, settled, own, last}}}}
	for n, want := range []*conn{own, settled, oldest, nil, nil} {
		if got := i.pop(&Target{}, "me", now); got != want {
			t.Errorf("connection %d: %+v, want %+v", n+1, got, want)
		}
	}
	if got := i.pop(&Target{}, "other", now); got != last {
		t.Errorf("its own account gets %+v", got)
	}
}

// Distrust ends an hour after the last time.
func TestDistrustEnds(t *testing.T) {
	t.Parallel()
	i := &New(slog.New(slog.DiscardHandler)).idle
	i.distrust("engine")
	if i.distrustedLen(time.Now().Add(distrustTime-time.Minute)) != 1 {
		t.Error("it has ended early")
	}
	i.expire(time.Now().Add(distrustTime - time.Minute))
	if len(i.distrusted) != 1 {
		t.Error("it was forgotten early")
	}
	if after := time.Now().Add(distrustTime + time.Minute); i.distrustedLen(after) != 0 {
		t.Error("it has not ended")
	} else if i.expire(after); len(i.distrusted) != 0 {
		t.Error("it was not forgotten")
	}
}
