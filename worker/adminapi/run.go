package adminapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"colonnade/internal/ctxtime"
	"colonnade/worker/wire"
)

const (
	renewalsPerTTL = 3                      // so that two may fail before a registration ends
	storedPause    = 200 * time.Millisecond // until a state is sent again that the server could not store at once
)

// run is Run of the [worker.Registry].
func (k *client) run(ctx context.Context) error {
	defer k.http.CloseIdleConnections()
	select {
	case <-k.wake:
	case <-ctx.Done():
		return nil
	}
	defer k.leave(ctx)
	log := changeLog{logger: k.c.Logger}
	var conflictSince time.Time
	for pause := firstPause; ; {
		err := k.putAnywhere(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			if pause = firstPause; k.takes(&log) {
				conflictSince = time.Time{}
			}
			k.awaitRenewal(ctx)
			continue
		}
		k.setFailure(err)
		if k.endsRun(err, &conflictSince) {
			return err
		}
		log.failed(err)
		if !ctxtime.Sleep(ctx, pause) {
			return nil
		}
		pause = min(2*pause, longestPause)
	}
}

// takes reports whether the server that has answered has the newest state in force, and logs why it has not.
func (k *client) takes(log *changeLog) bool {
	k.mu.Lock()
	why := k.waits
	k.mu.Unlock()
	if why != "" {
		log.failed(errors.New(why))
		return false
	}
	log.good()
	return true
}

// endsRun reports whether an error is one from the start: of the worker, or of its endpoint, which comes later.
func (k *client) endsRun(err error, conflictSince *time.Time) bool {
	k.mu.Lock()
	taken, unknown := k.taken, k.newest.Endpoint.Key != "" && !k.served
	k.mu.Unlock()
	var refused *refusedError
	if !errors.As(err, &refused) {
		return false
	}
	ofEndpoint := unknown && (refused.status == http.StatusBadRequest || refused.status == http.StatusConflict)
	if taken && !ofEndpoint {
		return false
	}
	if refused.status != http.StatusConflict {
		return true
	}
	if conflictSince.IsZero() {
		*conflictSince = time.Now()
	}
	return time.Since(*conflictSince) >= conflictTime
}

// awaitRenewal waits until the registration has to be sent again.
func (k *client) awaitRenewal(ctx context.Context) {
	k.mu.Lock()
	wait := k.ttl / renewalsPerTTL
	if k.stored < k.number {
		wait = storedPause
	}
	k.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-k.wake:
	case <-ctx.Done():
	}
}

// putAnywhere sends the newest state to the first server that takes it, beginning with the last one that did. The error is a *refusedError if no
// server may take it later as well.
func (k *client) putAnywhere(ctx context.Context) (err error) {
	k.mu.Lock()
	first := k.server
	k.mu.Unlock()
	passes := error(nil)
	for i := range k.servers {
		server := (first + i) % len(k.servers)
		if err = k.put(ctx, server); err == nil || ctx.Err() != nil {
			return err
		}
		if refused := (*refusedError)(nil); !errors.As(err, &refused) {
			passes = err
		}
	}
	if passes != nil {
		return passes
	}
	return err
}

// put sends the newest state to one server.
func (k *client) put(ctx context.Context, server int) error {
	k.mu.Lock()
	state, number := k.newest, k.number
	k.begun++
	begun := k.begun
	k.mu.Unlock()
	body, err := wire.NewRequest(&state.Worker, state.Endpoint, state.Models)
	if err != nil {
		return &refusedError{text: err.Error()}
	}
	var answer wire.Answer
	if err := k.call(ctx, k.servers[server], http.MethodPut, wire.Path+url.PathEscape(state.Worker.Node), body, &answer); err != nil {
		return err
	}
	k.took(begun, number, server, answer, state.Endpoint.Key != "")
	return nil
}

// leave ends the registration, so that no successor has to wait until it has expired.
func (k *client) leave(ctx context.Context) {
	k.mu.Lock()
	own, server, taken := k.newest.Worker, k.server, k.taken
	k.mu.Unlock()
	if !taken {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	path := wire.Path + url.PathEscape(own.Node) + "?boot=" + url.QueryEscape(own.Boot)
	if err := k.call(ctx, k.servers[server], http.MethodDelete, path, nil, nil); err != nil {
		k.c.Logger.Warn("cannot end the registration; it expires", "error", err)
	}
}

// poolOf is PoolOf of the [worker.Registry]. It waits for a server until ctx ends.
func (k *client) poolOf(ctx context.Context, model string) (string, error) {
	for {
		var err error
		for _, server := range k.servers {
			var found wire.PoolOfModel
			if err = k.call(ctx, server, http.MethodGet, wire.PoolPath+"?model="+url.QueryEscape(model), nil, &found); err == nil {
				return found.Pool, nil
			}
		}
		if !ctxtime.Sleep(ctx, longestPause) {
			return "", err
		}
	}
}
