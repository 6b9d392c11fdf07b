package acmecert

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// httpTimeout bounds a request to the listener for http-01, and its answer.
	httpTimeout = 5 * time.Second
	// maxHTTPConns bounds its connections. Each has one request.
	maxHTTPConns = 64
	maxHTTPHead  = 8 << 10
)

// listen opens the listener for http-01, if there is to be one.
func (s *Source) listen() error {
	if s.config.HTTPListen == "" {
		return nil
	}
	ln, err := net.Listen("tcp", s.config.HTTPListen)
	if err != nil {
		return fmt.Errorf("cannot listen for the challenges of the certificate authority (flag -tls-http-listen): %w", err)
	}
	s.http = netutil.LimitListener(ln, maxHTTPConns)
	return nil
}

// HTTPAddr returns the address of the listener for http-01, or nil without one.
func (s *Source) HTTPAddr() net.Addr {
	if s.http == nil {
		return nil
	}
	return s.http.Addr()
}

// Close closes the listener for http-01 of a source that does not run.
func (s *Source) Close() error {
	if s.http == nil {
		return nil
	}
	return s.http.Close()
}

// serveHTTP serves the listener for http-01 until ctx is done.
func (s *Source) serveHTTP(ctx context.Context, handler http.Handler) {
	server := &http.Server{
		Handler: handler, ReadTimeout: httpTimeout, WriteTimeout: httpTimeout, MaxHeaderBytes: maxHTTPHead,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	server.SetKeepAlivesEnabled(false)
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(s.http); ctx.Err() == nil {
		s.config.Logger.Error("the listener for http-01 has ended (flag -tls-http-listen)", "error", err)
	}
}

// httpHandler answers challenges, and passes all other requests to redirect.
func (s *Source) httpHandler() http.Handler {
	challenges := s.manager.HTTPHandler(http.HandlerFunc(s.redirect))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, _, err := net.SplitHostPort(r.Host); err == nil {
			r.Host = host
		}
		challenges.ServeHTTP(w, r)
	})
}

// redirect redirects GET and HEAD requests to HTTPS, and answers other methods with a 400 and other hosts with a 404. An API key in any of
// these requests was readable on the way. A client that sends requests with a body learns that from the 400; a redirect would hide it.
func (s *Source) redirect(w http.ResponseWriter, r *http.Request) {
	name := strings.ToLower(r.Host)
	switch {
	case !slices.Contains(s.names, name):
		http.Error(w, "there is no such host here", http.StatusNotFound)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "this port requires HTTPS: the URL must begin with https://", http.StatusBadRequest)
	case !strings.HasPrefix(r.URL.RequestURI(), "/"): // such as x:.example.net, which would become a part of the name
		http.Error(w, "the request must begin with a path", http.StatusBadRequest)
	default:
		http.Redirect(w, r, "https://"+name+r.URL.RequestURI(), http.StatusPermanentRedirect)
	}
}
