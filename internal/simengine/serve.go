package simengine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// idleTimeout is how long uvicorn, which most real engines use, keeps an idle connection.
	idleTimeout = 5 * time.Second
	headTimeout = 10 * time.Second

	// writeBuffer bounds what the kernel buffers for a client that does not read, which otherwise grows to megabytes:
	// so Stats.Bytes is about what the client has taken.
	writeBuffer = 64 << 10
)

// Serve answers on ln until ctx ends or e is closed, neither of which is an error. When it returns, ln and every
// connection are closed, also the connections that faults and WebSockets have hijacked. The engine may be served again
// on another listener.
func Serve(ctx context.Context, ln net.Listener, e *Engine) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var inside gate
	srv := &http.Server{
		Handler:           guarded(&inside, e),
		ReadHeaderTimeout: headTimeout,
		IdleTimeout:       idleTimeout,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       boundWrites,
		ErrorLog:          slog.NewLogLogger(e.c.Logger.Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()

	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
	case <-e.ctx.Done():
	}
	cancel() // ends handlers whose connections are hijacked: the server no longer knows them
	_ = srv.Close()
	inside.close()
	if err != nil {
		return fmt.Errorf("cannot serve the simulated engine on %s: %w", ln.Addr(), err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot end the simulated engine on %s: %w", ln.Addr(), err)
	}
	return nil
}

// guarded counts the requests in h, since http.Server.Close does not wait for handlers.
func guarded(inside *gate, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !inside.enter() {
			panic(http.ErrAbortHandler)
		}
		defer inside.leave()
		h.ServeHTTP(w, r)
	})
}

func boundWrites(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetWriteBuffer(writeBuffer) // if it fails, the kernel's default stays, which only takes more memory
	}
	return ctx
}
