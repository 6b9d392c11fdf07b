package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// runner runs trials against one gateway in front of engines of its own.
type runner struct {
	gateway  *Gateway
	target   *Target
	engines  *engines // nil: not simulated ones
	client   *client
	keys     map[string]string // by account
	ids      *idSource
	progress func(gateway, doing string)

	events   streamEvents  // of an answer, where engines are not simulated
	leakWait time.Duration // what is held so long after the last request is leaked
}

const (
	readyTimeout = 20 * time.Second
	idlePoll     = 20 * time.Millisecond
)

// awaitReady returns once the gateway serves every account.
func (r *runner) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for account, key := range r.keys {
		for {
			s := r.ask(ctx, &request{key: key, tokens: 1, input: 1, timeout: readyTimeout})
			if s.outcome == completed {
				break
			}
			if r.gateway.Start == nil && s.isClientError() { // one that was just started may not have all documents yet
				return r.flagError(account, s)
			}
			if !sleep(ctx, 50*time.Millisecond) {
				return fmt.Errorf("the gateway %s does not serve the account %s within %s: %s", r.gateway.Name, account,
					readyTimeout, s.describe())
			}
		}
	}
	return nil
}

// ask sends one request outside of a trial.
func (r *runner) ask(ctx context.Context, q *request) *sample {
	s := &sample{}
	q.id = r.ids.next()
	r.client.do(ctx, clock{time.Now()}, q, s)
	return s
}

// flagError names the flag that a gateway that already runs objects to.
func (r *runner) flagError(account string, s *sample) error {
	flag := "-url " + r.target.URL
	switch s.status {
	case http.StatusUnauthorized:
		flag = "-key (" + account + ")" // the key itself is a secret
	case http.StatusForbidden:
		flag = "-model " + r.client.model + " with -key (" + account + ")"
	case http.StatusNotFound:
		flag = "-model " + r.client.model
	}
	message := ""
	if s.message != "" {
		message = ": " + s.message
	}
	return fmt.Errorf("%s: the gateway answered %d%s", flag, s.status, message)
}

// awaitIdle waits until no request is in flight, for leakWait at most, and returns how many still are: those are leaked. It
// returns -1 if that cannot be known.
func (r *runner) awaitIdle(ctx context.Context) int {
	if r.engines == nil && r.target.Held == nil {
		return -1
	}
	for deadline := time.Now().Add(r.leakWait); ; {
		held := r.inFlight(ctx)
		if held == 0 || time.Now().After(deadline) || !sleep(ctx, idlePoll) {
			return held
		}
	}
}

// inFlight is what the engines have, or if that is nothing, what the gateway holds or queues; -1 if it cannot say.
func (r *runner) inFlight(ctx context.Context) int {
	if r.engines != nil {
		if n := r.engines.inFlight(); n > 0 || r.target.Held == nil {
			return n
		}
	}
	held, queued, err := r.target.Held(ctx)
	if err != nil {
		return -1
	}
	return held + queued
}

// stop ends the gateway and its engines.
func (r *runner) stop() error {
	var all []error
	if r.client != nil {
		r.client.conns.close()
	}
	if r.target != nil && r.target.Stop != nil {
		all = append(all, r.target.Stop())
	}
	if r.engines != nil {
		all = append(all, r.engines.close())
	}
	return errors.Join(all...)
}
