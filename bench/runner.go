package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// runner is one gateway that runs, before engines of its own, and the client that loads it.
type runner struct {
	gateway  *Gateway
	target   *Target
	engines  *engines // nil: not ours
	client   *client
	keys     map[string]string // by account
	ids      *idSource
	progress func(gateway, doing string)

	events   streamEvents  // of an answer, where engines are not ours
	leakWait time.Duration // what is held after so long is leaked
}

const (
	readyWithin = 20 * time.Second
	idlePoll    = 20 * time.Millisecond
)

// awaitReady returns once the gateway serves every account.
func (a *runner) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for name, key := range a.keys {
		for {
			s := sample{}
			c := request{id: a.ids.next(), key: key, tokens: 1, input: 1, timeout: readyWithin}
			a.client.do(ctx, clock{time.Now()}, &c, &s)
			if s.outcome == completed {
				break
			}
			if a.gateway.Start == nil && s.isClientError() { // one of ours may not know its documents yet
				return a.flagError(name, &s)
			}
			if !sleep(ctx, 50*time.Millisecond) {
				return fmt.Errorf("the gateway %s does not serve the account %s within %s: %s", a.gateway.Name, name,
					readyWithin, s.describe())
			}
		}
	}
	return nil
}

// flagError says which flag a gateway that runs already finds fault with.
func (a *runner) flagError(account string, s *sample) error {
	flag := "-url " + a.target.URL
	switch s.status {
	case http.StatusUnauthorized:
		flag = "-key (" + account + ")" // the key itself is a secret
	case http.StatusForbidden:
		flag = "-model " + a.client.model + " with -key (" + account + ")"
	case http.StatusNotFound:
		flag = "-model " + a.client.model
	}
	said := ""
	if s.message != "" {
		said = ": " + s.message
	}
	return fmt.Errorf("%s: the gateway answered %d%s", flag, s.status, said)
}

// describe says what came of a request that was not answered.
func (s *sample) describe() string {
	text := s.problem
	if text == "" {
		text = fmt.Sprintf("status %d", s.status)
	}
	return strings.TrimSpace(text + " " + s.reason)
}

// awaitIdle waits until nothing is in hand any more, and returns what is still held when it has waited long enough: leaked.
// It returns -1 if nobody can be asked.
func (a *runner) awaitIdle(ctx context.Context) int {
	if a.engines == nil && a.target.Held == nil {
		return -1
	}
	for deadline := time.Now().Add(a.leakWait); ; {
		held := a.inFlight(ctx)
		if held == 0 || time.Now().After(deadline) || !sleep(ctx, idlePoll) {
			return held
		}
	}
}

// inFlight is what the engines have, and if that is nothing, what the gateway holds or queues; -1 if it cannot say.
func (a *runner) inFlight(ctx context.Context) int {
	if a.engines != nil {
		if n := a.engines.inFlight(); n > 0 || a.target.Held == nil {
			return n
		}
	}
	held, queued, err := a.target.Held(ctx)
	if err != nil {
		return -1
	}
	return held + queued
}

// stop ends the gateway and its engines.
func (a *runner) stop() error {
	var all []error
	if a.client != nil {
		a.client.conns.close()
	}
	if a.target != nil && a.target.Stop != nil {
		all = append(all, a.target.Stop())
	}
	if a.engines != nil {
		all = append(all, a.engines.close())
	}
	return errors.Join(all...)
}
