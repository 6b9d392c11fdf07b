package node

import (
	"context"
	"time"
)

const (
	// entryNotice is the longest time that a draining entry still serves as before, so that load balancers notice: three
	// health checks at an interval of five seconds.
	entryNotice = 15 * time.Second
	// coloNotice is the same for a colo server and for entries that cannot reach etcd; the others know at once.
	coloNotice = 5 * time.Second
	// announceTimeout is the longest time that a drain waits for etcd to store the announcement.
	announceTimeout = time.Second
	// checkTimeout is the longest time that a drain by an operator, without force, waits for etcd.
	checkTimeout = 5 * time.Second
)

// announceDrain calls announce, which replaces the node's document by one with the state draining. A drain does not wait for an etcd that
// is away: the lease writes the document later, if etcd comes back.
func (r *runtime) announceDrain(t tasks, announce func(context.Context) error) {
	stored := make(chan error, 1)
	t.Go(func() error {
		stored <- announce(t.ctx)
		return nil
	})
	timeout := time.NewTimer(max(min(announceTimeout, r.config.Drain/4), announceTimeout/10))
	defer timeout.Stop()
	err := context.DeadlineExceeded
	select {
	case err = <-stored:
	case <-timeout.C:
	}
	if err != nil {
		r.config.Logger.Warn("cannot announce the drain in etcd", "error", err)
	}
}
