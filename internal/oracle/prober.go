package oracle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	probeInterval = 10 * time.Millisecond // in a soak
	probeTimeout  = 10 * time.Second
)

// prober asks health pages again and again, as a load balancer would.
type prober struct {
	stop  context.CancelFunc
	done  chan struct{}
	probe *http.Client

	mu       sync.Mutex // guards the fields below
	times    []time.Duration
	failures []error
}

func startProber(urls []string) *prober {
	ctx, cancel := context.WithCancel(context.Background())
	p := &prober{
		stop:  cancel,
		done:  make(chan struct{}),
		probe: &http.Client{Transport: &http.Transport{}, Timeout: probeTimeout},
	}
	go p.run(ctx, urls)
	return p
}

func (p *prober) run(ctx context.Context, urls []string) {
	defer close(p.done)
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
		}
	}
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

// problems says whether a probe failed, or one in a hundred took as long as slowest.
func (p *prober) problems(slowest time.Duration) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []string
	if n := len(p.failures); n > 0 {
		found = append(found, fmt.Sprintf("health: %d of %d probes failed, the last with: %v", n, len(p.times), p.failures[n-1]))
	}
	if len(p.times) == 0 {
		return found
	}
	slices.Sort(p.times)
	if p99 := p.times[(len(p.times)-1)*99/100]; p99 >= slowest {
		found = append(found, fmt.Sprintf("health: p99 of %d probes is %v, want less than %v", len(p.times), p99, slowest))
	}
	return found
}
