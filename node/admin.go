package node

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"colonnade/admin"
)

// adminServer serves the admin pages. They outlive everything else of a node, so that its end can be observed.
type adminServer struct {
	stop context.CancelFunc // nil before serve
	done chan struct{}
	err  error // once done is closed
}

func (s *adminServer) started() bool { return s.stop != nil }

func (s *adminServer) serve(ln net.Listener, handler http.Handler, logger *slog.Logger) {
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		s.err = admin.Serve(ctx, ln, handler, logger)
	}()
}

// wait returns the reason when the pages are no longer served, or nil when ctx is done.
func (s *adminServer) wait(ctx context.Context) error {
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return nil
	}
}

func (s *adminServer) end() error {
	if !s.started() {
		return nil
	}
	s.stop()
	<-s.done
	return s.err
}
