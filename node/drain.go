package node

import (
	"context"
	"net"
	"net/http"
	"time"

	"colonnade/admin"
	"colonnade/discovery/etcd"
)

const (
	// entryNotice is the longest time that an entry still serves as before, so that whoever balances load notices:
	// three questions that are five seconds apart.
	entryNotice = 15 * time.Second
	// coloNotice is the same for a colo server, for entries that cannot see etcd: the others know at once.
	coloNotice = 5 * time.Second
	// saidWithin is how long etcd may take to take the word that a node drains.
	saidWithin = time.Second
)

// sayDraining replaces the node's document by one that says that it drains. A drain does not wait for an etcd that is
// away: then the lease puts the document there later, if it comes back.
func (p *parts) sayDraining(b background, lease *etcd.Lease, document []byte) {
	said := make(chan error, 1)
	b.Go(func() error {
		said <- lease.Update(b.context, document)
		return nil
	})
	late := time.NewTimer(max(min(saidWithin, p.config.Drain/4), saidWithin/10))
	defer late.Stop()
	err := context.DeadlineExceeded
	select {
	case err = <-said:
	case <-late.C:
	}
	if err != nil {
		p.config.Logger.Warn("cannot say in etcd that this node drains", "reason", err)
	}
}

// pages are the admin pages. They outlive everything else of a node, so that its end can be looked at.
type pages struct {
	stop context.CancelFunc
	done chan struct{}
	err  error // once done is closed
}

func (p *pages) served() bool { return p.stop != nil }

func (p *pages) serve(ln net.Listener, handler http.Handler) {
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		p.err = admin.Serve(ctx, ln, handler)
	}()
}

// failed returns when the pages are not served any more, with the reason; or nil when ctx ends.
func (p *pages) failed(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return nil
	}
}

func (p *pages) end() error {
	if !p.served() {
		return nil
	}
	p.stop()
	<-p.done
	return p.err
}
