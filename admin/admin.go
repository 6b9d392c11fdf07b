package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"colonnade/internal/ascii"
)

// Config has the sources of the pages. The functions are called for each request, also concurrently. A page without a
// function does not exist.
type Config struct {
	Metrics prometheus.Gatherer
	Ready   func() error // why the node is not ready; nil function = always ready
	// Problems returns a line for each problem that an operator should look at; it is called for a node that is not ready, and by ?verbose.
	Problems func() []string
	Losses   func() []error         // what the node loses although it is ready; part of the pages of readiness and of Check
	Fleet    func() any             // the table in force, for JSON
	Config   func() any             // age of the table, and documents that are not in force, for JSON
	Pools    func(accounts int) any // state of the pools, with at most so many accounts of each, for JSON
	Worker   func() any             // the engine of a worker and its GPUs, for JSON
	Check    func() []error         // every invariant that does not hold
	// Plan returns the plan of a request for a model, of an account unless that is empty, for JSON; an error is for a client with other names.
	Plan   func(model, account string) (any, error)
	Events http.Handler // the events of the node, with parameters that select them; nil = there is no such page
	API    http.Handler // the admin API, below /api/v1/; it authenticates its callers. nil = off
	Hosts  []string     // names under which the pages are served, besides localhost and all IP addresses; a port is ignored
}

const (
	defaultAccounts = 10 // of each pool
	// MaxAccounts is the largest number of accounts of each pool that a request may ask for. Sorting them delays permits.
	MaxAccounts = 100
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
	mux.HandleFunc("GET /health/ready", ready(c))
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
	if c.Worker != nil {
		page("/debug/worker", asJSON(c.Worker))
	}
	if c.Plan != nil {
		page("/debug/plan", plan(c.Plan))
	}
	if c.Events != nil {
		page("/debug/events", c.Events.ServeHTTP)
	}
	if c.Check != nil {
		page("/debug/check", check(func() []error { return append(c.Check(), c.losses()...) }))
	}
	pages = append(pages, "/debug/pprof/")
	addProfiles(mux)
	mux.HandleFunc("/api/", apiOff)
	if c.API != nil {
		pages = append(pages, "/api/v1/openapi.json")
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, strings.Join(pages, "\n")+"\n")
	})
	return newGuard(c.Hosts, limitBodies(withAPI(c.API, mux)))
}

// withAPI serves the paths of the admin API before the mux would redirect those that are not clean.
func withAPI(api, pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if api != nil && strings.HasPrefix(r.URL.EscapedPath()+"/", "/api/v1/") {
			api.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// bodyTimeout bounds the time in which a request sends its body.
const bodyTimeout = 30 * time.Second

// limitBodies sets a read deadline for requests with a body. [http.Server.ReadTimeout] would also end requests without one that run longer, such
// as profiles: the server reads on while they run.
func limitBodies(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // not in tests without a connection
		}
		pages.ServeHTTP(w, r)
	})
}

// apiOff answers what no API serves.
func apiOff(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusNotFound, map[string]any{"error": map[string]string{
		"message": "there is no admin API here: it is below /api/v1/, if the node was started with -admin-tokens FILE",
	}})
}

func (c *Config) losses() []error {
	if c.Losses == nil {
		return nil
	}
	return c.Losses()
}

// ready serves the readiness, and what is lost: a node that loses events still serves requests. Load balancers ask every second, so the
// problems are looked for only if the node is not ready, or if the query has the parameter verbose.
func ready(c Config) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status, first := http.StatusOK, "ready"
		if c.Ready != nil {
			if err := c.Ready(); err != nil {
				status, first = http.StatusServiceUnavailable, err.Error()
			}
		}
		text := first + "\n" + lines(c.losses())
		if c.Problems != nil && (status != http.StatusOK || r.URL.Query().Has("verbose")) {
			for _, problem := range c.Problems() {
				text += strings.ReplaceAll(problem, "\n", " ") + "\n"
			}
		}
		writeText(w, status, text)
	}
}

// pools serves the pools; the parameter accounts sets the number of accounts of each.
func pools(states func(accounts int) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		accounts := defaultAccounts
		if asked := r.URL.Query().Get("accounts"); asked != "" {
			n, ok := ascii.ParseUint([]byte(asked))
			if !ok || n > MaxAccounts {
				writeText(w, http.StatusBadRequest,
					fmt.Sprintf("accounts=%q: must be 0 to %d, the number of accounts of each pool\n", asked, MaxAccounts))
				return
			}
			accounts = n
		}
		asJSON(func() any { return states(accounts) })(w, r)
	}
}

// plan serves the plan of a request; the parameters model and account say which.
func plan(explain func(model, account string) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("model") == "" {
			writeText(w, http.StatusBadRequest, "/debug/plan?model=MODEL&account=ACCOUNT: the model is missing\n")
			return
		}
		explained, err := explain(q.Get("model"), q.Get("account"))
		if err != nil {
			writeJSON(w, http.StatusNotFound, map[string]string{"error": err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, explained)
	}
}

func check(invariants func() []error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		broken := invariants()
		if len(broken) == 0 {
			writeText(w, http.StatusOK, "ok\n")
			return
		}
		writeText(w, http.StatusInternalServerError, lines(broken))
	}
}

// lines returns one line for each error: an error may span lines.
func lines(all []error) string {
	var text strings.Builder
	for _, err := range all {
		fmt.Fprintln(&text, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return text.String()
}

// shutdownTimeout bounds requests in flight when the server ends; a longer profile is cut.
const shutdownTimeout = time.Second

// Serve serves the listener until ctx ends, and closes it. It returns nil if ctx ended it. logger gets the problems of single
// connections, one a minute.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, logger *slog.Logger) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(newServerLog(logger), slog.LevelError),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("cannot serve admin pages on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	err := server.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	if err != nil {
		return fmt.Errorf("cannot stop admin pages: %w", err)
	}
	return nil
}
