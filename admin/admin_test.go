package admin_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"colonnade/admin"
	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts the pages on loopback and returns their base URL.
func serve(t *testing.T, c admin.Config) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- admin.Serve(ctx, listener, admin.Handler(c), slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return "http://" + listener.Addr().String()
}

func TestPages(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "answer"}, func() float64 { return 42 }))
	var notReady error
	var broken, losses []error
	base := serve(t, admin.Config{
		Metrics: registry,
		Ready:   func() error { return notReady },
		Losses:  func() []error { return losses },
		Fleet:   func() any { return map[string]any{"revision": 7, "name": "a<b"} },
		Config:  func() any { return map[string]any{"age_seconds": 0.5} },
		Pools:   func(accounts int) any { return map[string]any{"accounts": accounts} },
		Worker:  func() any { return map[string]any{"state": "serving"} },
		Check:   func() []error { return broken },
		Plan: func(model, account string) (any, error) {
			if model != "m" {
				return nil, errors.New("there is no model \"" + model + "\"")
			}
			return map[string]any{"model": model, "account": account}, nil
		},
	})
	f := func(path string, status int, want string) {
		t.Helper()
		if got, body := testkit.Get(base + path); got != status || !strings.Contains(body, want) {
			t.Errorf("%s: got %d %q, want %d with %q", path, got, body, status, want)
		}
	}
	f("/metrics", 200, "answer 42\n")
	f("/health/live", 200, "live")
	f("/health/ready", 200, "ready")
	f("/debug/fleet", 200, `"name": "a<b"`)
	f("/debug/config", 200, `"age_seconds": 0.5`)
	f("/debug/pools", 200, `"accounts": 10`)
	f("/debug/pools?accounts=100", 200, `"accounts": 100`)
	f("/debug/pools?accounts=0", 200, `"accounts": 0`)
	f("/debug/pools?accounts=101", 400, `accounts="101": must be 0 to 100`)
	f("/debug/pools?accounts=-1", 400, "must be 0 to 100")
	f("/debug/pools?accounts=%2b1", 400, "must be 0 to 100")
	f("/debug/pools?accounts=%1b", 400, `accounts="\x1b"`)
	f("/debug/worker", 200, `"state": "serving"`)
	f("/debug/plan?model=m&account=a", 200, `"account": "a"`)
	f("/debug/plan?model=m", 200, `"model": "m"`)
	f("/debug/plan?model=x", 404, `"error": "there is no model \"x\""`)
	f("/debug/plan", 400, "the model is missing")
	f("/debug/check", 200, "ok")
	f("/debug/pprof/", 200, "goroutine")
	f("/debug/pprof/goroutine?debug=1", 200, "goroutine profile")
	f("/debug/pprof/cmdline", 200, "")
	f("/debug/nothing", 404, "")
	f("/nothing", 404, "")
	f("/", 200, "/metrics\n/debug/fleet\n")

	losses = []error{errors.New("events are being dropped")}
	f("/health/ready", 200, "ready\nevents are being dropped\n")
	f("/debug/check", 500, "events are being dropped\n")

	notReady = errors.New("no table has been loaded yet")
	broken = []error{errors.New("pool p: held 3, slots say 2"), errors.Join(errors.New("two"), errors.New("lines"))}
	f("/health/live", 200, "live")
	f("/health/ready", 503, "no table has been loaded yet")
	f("/debug/check", 500, "pool p: held 3, slots say 2\ntwo; lines\nevents are being dropped\n")
}

func TestPagesWithoutASourceDoNotExist(t *testing.T) {
	base := serve(t, admin.Config{})
	f := func(path string, want int) {
		t.Helper()
		if got, _ := testkit.Get(base + path); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
	f("/health/ready", 200)
	f("/metrics", 404)
	f("/debug/fleet", 404)
	f("/debug/pools", 404)
	f("/debug/worker", 404)
	f("/debug/check", 404)
	response, err := http.Post(base+"/health/live", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != 405 {
		t.Errorf("POST: got %d, want 405", response.StatusCode)
	}
}

func TestUnencodablePageIsAnError(t *testing.T) {
	base := serve(t, admin.Config{Fleet: func() any { return make(chan int) }})
	if status, body := testkit.Get(base + "/debug/fleet"); status != 500 || !strings.Contains(body, "cannot encode") {
		t.Errorf("got %d %q, want 500", status, body)
	}
}

// A request that takes long does not delay the end of the process.
func TestServeEndsWithRequestsInFlight(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, left := make(chan struct{}), make(chan struct{})
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		close(left)
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- admin.Serve(ctx, listener, slow, slog.New(slog.DiscardHandler)) }()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		if response, err := http.Get("http://" + listener.Addr().String()); err == nil {
			response.Body.Close()
		}
	}()
	<-entered
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Serve has not ended")
	}
	<-asked
	<-left
	http.DefaultClient.CloseIdleConnections()
}

func TestServeReturnsWhyItEnded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := admin.Serve(t.Context(), listener, admin.Handler(admin.Config{}), slog.New(slog.DiscardHandler)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want %v", err, net.ErrClosed)
	}
}
