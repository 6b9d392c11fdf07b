package oracle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	probeInterval = 10 * time.Millisecond // in a soak
	probeTimeout  = 10 * time.Second
)

// prober requests health pages at an interval, as a load balancer does. Except in a soak, it requests a reference server as
// often, which does nothing else: its times are due to the machine, not to a node.
type prober struct {
	stop      context.CancelFunc
	done      chan struct{}
	client    *http.Client
	reference *httptest.Server // nil in a soak

	mu             sync.Mutex // guards the fields below
	times          []time.Duration
	referenceTimes []time.Duration
	failures       []error
}

func startProber(urls []string) *prober {
	ctx, cancel := context.WithCancel(context.Background())
	p := &prober{
		stop:   cancel,
		done:   make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{}, Timeout: probeTimeout},
	}
	if timeScale() > 1 && len(urls) > 0 {
		p.reference = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}
	go p.run(ctx, urls)
	return p
}

func (p *prober) run(ctx context.Context, urls []string) {
	defer close(p.done)
	if p.reference != nil {
		defer p.reference.Close()
	}
	defer p.client.CloseIdleConnections()
	ticker := time.NewTicker(probeInterval * timeScale())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, u := range urls {
			began := time.Now()
			err := p.request(ctx, u)
			if ctx.Err() != nil {
				return
			}
			if errors.Is(err, syscall.EMFILE) {
				continue // the test starves this process of descriptors: no request was sent
			}
			p.record(time.Since(began), err)
			p.requestReference(ctx)
		}
	}
}

func (p *prober) requestReference(ctx context.Context) {
	if p.reference == nil {
		return
	}
	began := time.Now()
	if p.request(ctx, p.reference.URL) != nil {
		return
	}
	took := time.Since(began)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.referenceTimes = append(p.referenceTimes, took)
}

func (p *prober) request(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := p.client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", url, response.StatusCode)
	}
	return nil
}

func (p *prober) record(took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times = append(p.times, took)
	if err != nil {
		p.failures = append(p.failures, err)
	}
}

// end stops the prober and waits for its goroutine. It may be called again.
func (p *prober) end() {
	p.stop()
	<-p.done
}

// problems reports failed probes, and a 99th percentile of slowest plus twice that of the reference, or more.
func (p *prober) problems(slowest time.Duration) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []string
	if n := len(p.failures); n > 0 {
		found = append(found, fmt.Sprintf("health: %d of %d probes failed, the last with: %v", n, len(p.times), p.failures[n-1]))
	}
	reference := p99(p.referenceTimes)
	if took := p99(p.times); took >= slowest+2*reference {
		found = append(found, fmt.Sprintf("health: p99 of %d probes is %v, want less than %v; the reference server takes %v",
			len(p.times), took, slowest+2*reference, reference))
	}
	return found
}

func p99(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[(len(times)-1)*99/100]
}
