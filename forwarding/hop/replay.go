package hop

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// windowWords is the size of a window, in words of 64 numbers: a token may be overtaken by 65 472 later ones of its issuer.
	windowWords = 1024
	// maxWindows bounds the windows, which take 8 KiB each.
	maxWindows = 2048
)

var (
	// ErrReplayed is the error of a token that was used before. It wraps [ErrBadToken].
	ErrReplayed = fmt.Errorf("%w: used before", ErrBadToken)
	// ErrSignAgain is the error of a token that may have been used before: it was signed for another process of the server, or too
	// many later ones have overtaken it. It wraps [ErrBadToken]. The request was not served, so its sender may sign it again.
	ErrSignAgain = fmt.Errorf("%w: it may have been used before", ErrBadToken)
)

// ReplayGuard makes the tokens for one process of a server good once. Its methods may be called by several goroutines at once.
//
// A token is bound to the process by its boot id, so none that an earlier process has served is good after a restart, and nothing is
// kept on disk. In the process, the tokens of an issuer (a [Sequence]) differ by their numbers. For each issuer there is a
// window of the latest numbers with a bit for each, as in IPsec (RFC 4303, section 3.4.3) and DTLS (RFC 9147, section 4.5.1), in
// blocks that need no shifting (RFC 6479). Only tokens that are signed by a key of the fleet reach the windows.
//
// A window is removed once all its tokens have expired. If there are too many, the one that expires first is removed early. Tokens of
// an issuer without a window are then good only if they were issued later than all tokens of removed windows. So a token is never good
// twice, also if the clock is set back.
type ReplayGuard struct {
	boot string

	mu      sync.Mutex         // guards the fields below
	windows map[string]*window // by issuer
	removed int64              // latest time of issue of a used token whose window was removed, in Unix seconds; 0 = none
}

// NewReplayGuard returns a guard for the process of a server that has this boot id.
func NewReplayGuard(boot string) *ReplayGuard {
	return &ReplayGuard{boot: boot, windows: map[string]*window{}}
}

// Check returns the error of Claim for a token that was used before or is not for this process, without using the token.
func (g *ReplayGuard) Check(t *Token) error {
	if err := g.checkForm(t); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.windows[t.Issuer]; w != nil {
		return w.check(t)
	}
	return checkIssued(t, g.removed)
}

// Claim uses a token, whose signature must be valid. Of all calls with one token, one succeeds. The error wraps [ErrReplayed],
// [ErrSignAgain] or only [ErrBadToken].
func (g *ReplayGuard) Claim(t *Token, now time.Time) error {
	if err := g.checkForm(t); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.windows[t.Issuer]
	if w == nil {
		if err := checkIssued(t, g.removed); err != nil {
			return err
		}
		w = g.addLocked(t, now)
	}
	if err := w.check(t); err != nil {
		return err
	}
	w.use(t)
	return nil
}

// checkForm checks what depends on no other token.
func (g *ReplayGuard) checkForm(t *Token) error {
	switch {
	case t.Number == 0 || len(t.Issuer) != issuerSize:
		return fmt.Errorf("%w: it has no number or no issuer", ErrBadToken)
	case t.Boot != g.boot:
		return fmt.Errorf("%w: signed for the process %.40q of this server, and this is %q", ErrSignAgain, t.Boot, g.boot)
	}
	return nil
}

// checkIssued refuses a token that may be one of those issued until then whose numbers are no longer known.
func checkIssued(t *Token, until int64) error {
	if t.Issued <= until {
		return fmt.Errorf("%w: its issuer is not known any more", ErrSignAgain)
	}
	return nil
}

// addLocked adds a window for the issuer of t. It takes a look at all windows, but issuers are rare: entries that have begun to send
// to this process.
func (g *ReplayGuard) addLocked(t *Token, now time.Time) *window {
	first := ""
	for issuer, w := range g.windows {
		switch {
		case now.Sub(time.Unix(w.newest, 0)) > tokenLifetime:
			g.removeLocked(issuer)
		case first == "" || w.newest < g.windows[first].newest:
			first = issuer
		}
	}
	if len(g.windows) >= maxWindows {
		g.removeLocked(first)
	}
	w := &window{after: g.removed, top: t.Number / 64}
	g.windows[strings.Clone(t.Issuer)] = w // t.Issuer may be a part of a whole token
	return w
}

func (g *ReplayGuard) removeLocked(issuer string) {
	g.removed = max(g.removed, g.windows[issuer].newest)
	delete(g.windows, issuer)
}

// window knows which of an issuer's latest numbers were used. Number n is bit n%64 of the word n/64, and words are kept in a ring.
type window struct {
	used   [windowWords]uint64
	top    uint64 // the highest word; words above it are not in the ring, and neither are those windowWords below it
	newest int64  // latest time of issue of a used token, in Unix seconds
	after  int64  // ReplayGuard.removed when this window was added: tokens issued until then may have been used before
}

func (w *window) check(t *Token) error {
	word, bit := t.Number/64, uint64(1)<<(t.Number%64)
	switch {
	case word+windowWords <= w.top:
		return fmt.Errorf("%w: too many later tokens of its issuer have been used", ErrSignAgain)
	case word <= w.top && w.used[word%windowWords]&bit != 0:
		return ErrReplayed
	}
	return checkIssued(t, w.after)
}

func (w *window) use(t *Token) {
	word := t.Number / 64
	for n := uint64(0); w.top < word && n < windowWords; n++ {
		w.top++
		w.used[w.top%windowWords] = 0
	}
	if w.top < word { // the whole ring was cleared
		w.top = word
	}
	w.used[word%windowWords] |= 1 << (t.Number % 64)
	w.newest = max(w.newest, t.Issued)
}
