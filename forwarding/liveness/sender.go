package liveness

import (
	"context"

	"colonnade/forwarding/peer"
	"colonnade/forwarding/transport"
)

// Sender sends requests to colo servers elsewhere. Its methods may be called by several goroutines at once.
type Sender struct {
	Client  *peer.Client
	Watcher *Watcher // runs as long as requests are sent
}

// Send sends a request to a server, and returns its answer as a [peer.Func] does. If the server shows no sign of life before
// the first byte and giveUp is set, since the request could go elsewhere, Send fails with [peer.ErrSilent]; it sets the request's Abort for that.
// [peer.ClassifyFailure] reads the error.
func (s *Sender) Send(ctx context.Context, to peer.Server, r *peer.Request, giveUp bool) (*peer.Answer, error) {
	do := s.Client.To(to)
	if !giveUp {
		return do(ctx, r)
	}
	return s.Watcher.watch(to, func(abort *transport.Abort) (*peer.Answer, error) {
		r.Abort = abort
		return do(ctx, r)
	})
}
