package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Config says where the pages come from. The functions are called for each request, at any time, also at once; a page
// whose function is nil is not there.
type Config struct {
	Metrics prometheus.Gatherer
	Ready   func() error           // nil = ready for requests; nil func = always ready
	Fleet   func() any             // the table in force, for JSON
	Config  func() any             // how fresh the table is, and what of the documents is not in force, for JSON
	Pools   func(accounts int) any // pools as they stand, and so many accounts of each at most, for JSON
	Check   func() []error         // every invariant that does not hold
}

const (
	someAccounts = 10 // of each pool, unless it is asked for more
	// MostAccounts is how many accounts of each pool can be asked for: to sort them costs who wants permits meanwhile.
	MostAccounts = 100
)

// Handler returns the pages.
func Handler(c Config) http.Handler {
	mux := http.NewServeMux()
	pages := []string{"/health/live", "/health/ready"}
	page := func(path string, h http.HandlerFunc) {
		pages = append(pages, path)
		mux.HandleFunc("GET "+path, h)
	}
	mux.HandleFunc("GET /health/live", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "live\n") })
	mux.HandleFunc("GET /health/ready", ready(c.Ready))
	if c.Metrics != nil {
		page("/metrics", promhttp.HandlerFor(c.Metrics, promhttp.HandlerOpts{}).ServeHTTP)
	}
	if c.Fleet != nil {
		page("/debug/fleet", asJSON(c.Fleet))
	}
	if c.Config != nil {
		page("/debug/config", asJSON(c.Config))
	}
	if c.Pools != nil {
		page("/debug/pools", pools(c.Pools))
	}
	if c.Check != nil {
		page("/debug/check", check(c.Check))
	}
	page("/debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, strings.Join(pages, "\n")+"\n")
	})
	return mux
}

func ready(state func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if state != nil {
			if err := state(); err != nil {
				writeText(w, http.StatusServiceUnavailable, err.Error()+"\n")
				return
			}
		}
		writeText(w, http.StatusOK, "ready\n")
	}
}

// pools answers with ?accounts=N as many accounts as are asked for.
func pools(states func(accounts int) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		accounts := someAccounts
		if asked := r.URL.Query().Get("accounts"); asked != "" {
			n, err := strconv.Atoi(asked)
			if err != nil || n < 0 || n > MostAccounts {
				writeText(w, http.StatusBadRequest,
					fmt.Sprintf("accounts=%q: must be 0 to %d, how many to name of each pool\n", asked, MostAccounts))
				return
			}
			accounts = n
		}
		asJSON(func() any { return states(accounts) })(w, r)
	}
}

func check(invariants func() []error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		broken := invariants()
		if len(broken) == 0 {
			writeText(w, http.StatusOK, "ok\n")
			return
		}
		var lines bytes.Buffer
		for _, err := range broken {
			// One line each, whatever the error holds.
			fmt.Fprintln(&lines, strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		writeText(w, http.StatusInternalServerError, lines.String())
	}
}

func asJSON(value func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var body bytes.Buffer
		encoder := json.NewEncoder(&body)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(value()); err != nil {
			writeText(w, http.StatusInternalServerError, fmt.Sprintf("cannot encode: %v\n", err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = body.WriteTo(w) // the reader has gone: nobody to tell
	}
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// shutdownTime is what requests in hand get when the server ends; a long profile is cut.
const shutdownTime = time.Second

// Serve answers requests on the listener until ctx ends, and closes it. It returns nil when ctx ended it.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("cannot serve admin pages on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	err := server.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	if err != nil {
		return fmt.Errorf("cannot end admin pages: %w", err)
	}
	return nil
}
