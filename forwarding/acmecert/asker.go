package acmecert

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"golang.org/x/crypto/acme"

	"colonnade/internal/ctxtime"
)

const (
	// retryMin is the time after the first failure until a certificate is requested again. The manager fails for a minute after each
	// failure, and Let's Encrypt allows five failures an hour for each name.
	retryMin = 2 * time.Minute
	// retryFactor multiplies it with each further failure, up to retryMax.
	retryFactor = 3
	retryMax    = time.Hour
	// renewalTime is how long a renewal may take after one challenge has failed, until that is reported.
	renewalTime = 30 * time.Second
	// maxLimit bounds the time for which a limit on the certificates of a name holds.
	maxLimit = 7 * 24 * time.Hour
)

// asker requests the certificates that are missing, one after the other. Once the manager has a certificate, it renews it by itself.
type asker struct {
	*Source
	missing []*request
}

// request is a name whose certificate the manager does not have yet.
type request struct {
	name     string
	due      time.Time
	failures int
}

func newAsker(s *Source) *asker {
	a := &asker{Source: s}
	for _, name := range s.names {
		a.missing = append(a.missing, &request{name: name})
	}
	return a
}

// run asks, and reports failed renewals, until ctx is done.
func (a *asker) run(ctx context.Context) {
	for {
		wait := time.NewTimer(time.Until(a.askAll(ctx)))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		case <-a.transport.failed: // of a renewal: those of requests are taken by ask
			wait.Stop()
			ctxtime.Sleep(ctx, renewalTime)
			a.report(a.transport.take())
		}
	}
}

// askAll requests each certificate that is due, and returns when the next one is.
func (a *asker) askAll(ctx context.Context) time.Time {
	next := time.Now().Add(retryMax)
	for _, r := range slices.Clone(a.missing) {
		if r.due = latest(r.due, a.transport.heldUntil()); time.Now().Before(r.due) {
			next = earliest(next, r.due)
			continue
		}
		aboutName, err := a.ask(ctx, r.name)
		switch {
		case ctx.Err() != nil:
			return next
		case err == nil:
			a.missing = slices.DeleteFunc(a.missing, func(one *request) bool { return one == r })
			continue
		}
		r.delay()
		if !aboutName {
			a.delayAll(r.due) // the others would get the same answer
		}
		if limit, ok := acme.RateLimit(err); ok {
			r.due = latest(r.due, time.Now().Add(min(limit, maxLimit)))
		}
		next = earliest(next, r.due)
	}
	return next
}

// delay sets when the certificate is requested again.
func (r *request) delay() {
	wait := retryMin
	for range r.failures {
		wait = min(wait*retryFactor, retryMax)
	}
	r.failures++
	r.due = time.Now().Add(wait + rand.N(wait/10))
}

func (a *asker) delayAll(until time.Time) {
	for _, r := range a.missing {
		r.due = latest(r.due, until)
	}
}

// ask requests one certificate, reports why that failed, and returns whether the reason concerns this name only. The manager takes no
// context, but its next request after the end of ctx fails: ask leaves the rest to a goroutine of its own.
func (a *asker) ask(ctx context.Context, name string) (aboutName bool, err error) {
	asked := make(chan error, 1)
	go func() {
		_, err := a.manager.GetCertificate(helloOf(name))
		asked <- err
	}()
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case err := <-asked:
		failures := a.transport.take()
		aboutName := err != nil && attribute(name, err, failures)
		a.report(failures)
		return aboutName, err
	}
}

// attribute adds the error of a request to the failures that the authority's answers show, unless they have the reason. It reports whether the
// authority may have another answer for another name.
func attribute(name string, err error, failures map[string]error) (aboutName bool) {
	var answer *acme.Error
	refused := errors.As(err, &answer) && answer.StatusCode < http.StatusInternalServerError && answer.StatusCode != http.StatusTooManyRequests
	switch {
	case failures[name] != nil:
		return true
	case refused:
		delete(failures, "") // the same answer
		failures[name] = err
	case failures[""] == nil:
		failures[name] = err
	}
	return refused
}

// helloOf returns the handshake of a client that accepts ECDSA, so that the manager makes no certificate with RSA.
func helloOf(name string) *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{
		ServerName:       name,
		CipherSuites:     []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
		SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}, SupportedCurves: []tls.CurveID{tls.CurveP256},
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
