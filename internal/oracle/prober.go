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

// prober asks health pages again and again, as a load balancer would. But in a soak, it asks a server that does nothing else
// as often: what that one takes is the machine's slowness, and not the node's.
type prober struct {
	stop  context.CancelFunc
	done  chan struct{}
	probe *http.Client
	bare  *httptest.Server // nil in a soak

	mu       sync.Mutex // guards the fields below
	times    []time.Duration
	slowness []time.Duration
	failures []error
}

func startProber(urls []string) *prober {
	ctx, cancel := context.WithCancel(context.Background())
	p := &prober{
		stop:  cancel,
		done:  make(chan struct{}),
		probe: &http.Client{Transport: &http.Transport{}, Timeout: probeTimeout},
	}
	if scale() > 1 && len(urls) > 0 {
		p.bare = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}
	go p.run(ctx, urls)
	return p
}

func (p *prober) run(ctx context.Context, urls []string) {
	defer close(p.done)
	if p.bare != nil {
		defer p.bare.Close()
	}
	defer p.probe.CloseIdleConnections()
	ticker := time.NewTicker(probeInterval * scale())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, u := range urls {
			began := time.Now()
			err := p.ask(ctx, u)
			if ctx.Err() != nil {
				return
			}
			if errors.Is(err, syscall.EMFILE) {
				continue // of the prober's own process, which a test may starve: nobody was asked
			}
			p.note(time.Since(began), err)
			p.askBare(ctx)
		}
	}
}

func (p *prober) askBare(ctx context.Context) {
	if p.bare == nil {
		return
	}
	began := time.Now()
	if p.ask(ctx, p.bare.URL) != nil {
		return
	}
	took := time.Since(began)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slowness = append(p.slowness, took)
}

func (p *prober) ask(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := p.probe.Do(r)
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

func (p *prober) note(took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times = append(p.times, took)
	if err != nil {
		p.failures = append(p.failures, err)
	}
}

// end stops probing and waits for it. It may be called again.
func (p *prober) end() {
	p.stop()
	<-p.done
}

// problems says whether a probe failed, or one in a hundred took as long as slowest and twice the machine's slowness.
func (p *prober) problems(slowest time.Duration) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []string
	if n := len(p.failures); n > 0 {
		found = append(found, fmt.Sprintf("health: %d of %d probes failed, the last with: %v", n, len(p.times), p.failures[n-1]))
	}
	slow := p99(p.slowness)
	if took := p99(p.times); took >= slowest+2*slow {
		found = append(found, fmt.Sprintf("health: p99 of %d probes is %v, want less than %v; a server that does nothing else takes %v",
			len(p.times), took, slowest+2*slow, slow))
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
