package jwt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/fleet"
	"colonnade/internal/ctxtime"
)

const (
	lookInterval = time.Second // between two looks for key sets that are due
	refresh      = time.Hour   // of a good key set
	retryAfter   = time.Minute // between two fetches after a failure, and between two for unknown keys
	// firstRetries is how often a key set that was never read is fetched again after lookInterval, so that a node that starts before its
	// network is there serves soon.
	firstRetries = 10
)

// State is what is known of an issuer's key set.
type State struct {
	Issuer  string    `json:"issuer"` // name of the document
	Keys    int       `json:"keys"`   // that tokens may be signed with
	Fetched time.Time `json:"fetched,omitzero"`
	Problem string    `json:"problem,omitempty"` // why the latest fetch failed; the keys of an earlier one stay in force
}

// source is the key set of one issuer.
type source struct {
	keys   atomic.Pointer[keySet] // nil before the first good fetch
	wanted atomic.Bool            // a token has named a key that is not there

	mu       sync.Mutex // guards the fields below
	issuer   *fleet.Issuer
	digest   [sha256.Size]byte // of the text of keys
	fetching bool
	tried    time.Time // when the latest fetch began
	asked    time.Time // when the latest one for an unknown key began
	fetched  time.Time // when the latest good one ended
	failures int       // since then
	problem  string
}

// sameKeys reports whether two documents name the same key set.
func sameKeys(a, b *fleet.Issuer) bool { return a.Issuer == b.Issuer && a.JWKS == b.JWKS }

// takeDue reports whether the key set must be fetched now, and counts that as begun.
func (s *source) takeDue(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := refresh
	switch {
	case s.keys.Load() == nil && s.failures <= firstRetries:
		wait = lookInterval
	case s.failures > 0:
		wait = retryAfter
	}
	due := s.tried.IsZero() || now.Sub(s.tried) >= wait
	if s.wanted.Swap(false) && !due && s.failures == 0 && now.Sub(s.asked) >= retryAfter {
		due, s.asked = true, now
	}
	if s.fetching || !due {
		return false
	}
	s.fetching, s.tried = true, now
	return true
}

// fetch fetches the key set, and puts it in force if it is good.
func (v *Verifier) fetch(ctx context.Context, s *source) {
	s.mu.Lock()
	issuer := s.issuer
	s.mu.Unlock()
	text, err := v.config.Fetch(ctx, issuer)
	var keys *keySet
	if err == nil {
		if keys, err = parseKeySet(text); err != nil {
			err = fmt.Errorf("the key set %w", err)
		}
	}
	if err == nil {
		if err := v.file.put(issuer, text, time.Now()); err != nil {
			v.config.Logger.Error("cannot keep the keys of an issuer of tokens", "issuer", issuer.Name, "error", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetching = false
	if err != nil {
		if ctx.Err() == nil {
			s.failLocked(v, err)
		}
		return
	}
	if s.failures > 0 {
		v.config.Logger.Info("keys of an issuer of tokens fetched again", "issuer", issuer.Name)
	}
	s.fetched, s.failures, s.problem = time.Now(), 0, ""
	if digest := sha256.Sum256(text); s.keys.Load() == nil || !bytes.Equal(digest[:], s.digest[:]) {
		s.digest = digest
		s.keys.Store(keys) // a key set that is unchanged keeps its pointer, so that no token is verified again
	}
}

func (s *source) failLocked(v *Verifier, err error) {
	s.failures++
	if problem := err.Error(); problem != s.problem {
		s.problem = problem
		v.config.Logger.Error("cannot fetch the keys of an issuer of tokens; the last good ones stay in force", "issuer", s.issuer.Name,
			"has_keys", s.keys.Load() != nil, "error", err)
	}
}

// Run fetches key sets until ctx is done.
func (v *Verifier) Run(ctx context.Context) {
	var fetches sync.WaitGroup
	defer fetches.Wait()
	for ctx.Err() == nil {
		for _, s := range v.follow() {
			if s.takeDue(time.Now()) {
				fetches.Go(func() { v.fetch(ctx, s) })
			}
		}
		ctxtime.Sleep(ctx, lookInterval)
	}
}

// follow returns the key sets of the issuers in the table, and forgets those of others.
func (v *Verifier) follow() map[string]*source {
	old, next := *v.sources.Load(), map[string]*source{}
	if len(old) == 0 && len(v.config.Issuers()) == 0 {
		return old
	}
	changed := false
	for _, i := range v.config.Issuers() {
		s := old[i.Name]
		if s != nil {
			s.mu.Lock()
			if !sameKeys(s.issuer, i) {
				s.mu.Unlock()
				s = nil
			} else {
				s.issuer = i
				s.mu.Unlock()
			}
		}
		if s == nil {
			s, changed = v.newSource(i), true
		}
		next[i.Name] = s
	}
	if changed || len(next) != len(old) {
		v.sources.Store(&next)
	}
	return next
}

// newSource returns the key set of an issuer as it was kept, or an empty one.
func (v *Verifier) newSource(i *fleet.Issuer) *source {
	s := &source{issuer: i}
	kept, found := v.file.find(i, time.Now())
	if !found {
		return s
	}
	keys, err := parseKeySet(kept.Text)
	if err != nil {
		return s
	}
	s.fetched, s.digest = kept.Fetched, sha256.Sum256(kept.Text)
	s.keys.Store(keys)
	return s
}

// States returns what is known of the key sets, in the order of the issuers' names.
func (v *Verifier) States() []State {
	var all []State
	for name, s := range *v.sources.Load() {
		s.mu.Lock()
		state := State{Issuer: name, Fetched: s.fetched, Problem: s.problem}
		s.mu.Unlock()
		if k := s.keys.Load(); k != nil {
			state.Keys = len(k.keys)
		}
		all = append(all, state)
	}
	slices.SortFunc(all, func(a, b State) int { return compareNames(a.Issuer, b.Issuer) })
	return all
}
