package admission

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Work is what a request asks of an engine, as far as that says how soon its answer can begin.
type Work struct {
	Model    string // of the table
	Path     string // one of a fixed set
	Streamed bool
	Input    int // bytes
	Output   int // the most tokens that it may generate before the first byte; 0: nobody knows, or none
}

// kind is what is measured apart: other models, or the other APIs of one, take other times.
type kind struct {
	model, path string
	streamed    bool
}

func (w *Work) kind() kind { return kind{w.Model, w.Path, w.Streamed} }

// soonest is how soon the answers to one kind of work have lately begun, from dispatch to the first byte: the least
// that another one will take. A value does not change; time is passed in.
//
// Two halves follow each other, so a sample counts for one to two times the length of a half. Then it is forgotten,
// whatever came of it: an engine that has become slower is noticed then, and requests are tried again where none was
// served since. One that has become faster is noticed at once.
//
// The bound must not refuse who could have been served. So it is the least that was measured, over all endpoints of the
// pool, and only where so many were that a request like them has little chance (one in 17) to be faster than all. Of
// less work than theirs, it is less in proportion: that is still a bound where the time is a constant and a part that
// grows with the work. Else small requests might never be tried while large ones are served. What it does not see is
// what else makes a request faster than those that were measured: a prompt that the engine has in its cache, an answer
// that happens to be short, an engine that has less to do by now. So of those that seem too late on arrival, one is tried
// all the same for each half (tryAgain), and shows if that was wrong.
type soonest struct {
	turned time.Time // when the newer half began
	newer  lately
	older  lately
}

// lately is what was measured in some time.
type lately struct {
	n        int     // samples, up to enough of them
	least    float64 // nanoseconds
	perByte  float64 // of input
	perToken float64 // that it might generate; 0 where nobody knew how many
}

const (
	half   = 10 * time.Second
	enough = 16 // samples
)

// with is what is known after another sample.
func (s soonest) with(now time.Time, w *Work, took time.Duration) soonest {
	s = s.at(now)
	x := float64(max(took, 0))
	s.newer = s.newer.and(lately{n: 1, least: x, perByte: x / w.bytes(), perToken: x / w.tokens()})
	return s
}

// at is what is left of it at a later moment.
func (s soonest) at(now time.Time) soonest {
	switch age := now.Sub(s.turned); {
	case age >= 2*half:
		return soonest{turned: now}
	case age >= half:
		return soonest{turned: s.turned.Add(half), older: s.newer}
	}
	return s
}

// bound is the least that it will take from dispatch to the first byte; 0 while that is not known.
func (s soonest) bound(now time.Time, w *Work) time.Duration {
	s = s.at(now)
	l := s.newer.and(s.older)
	if l.n < enough {
		return 0
	}
	bound := min(l.least, l.perByte*w.bytes())
	if w.Output > 0 {
		bound = min(bound, l.perToken*w.tokens())
	}
	return time.Duration(math.Round(bound))
}

func (l lately) and(m lately) lately {
	switch {
	case l.n == 0:
		return m
	case m.n == 0:
		return l
	}
	return lately{
		n: min(l.n+m.n, enough), least: min(l.least, m.least),
		perByte: min(l.perByte, m.perByte), perToken: min(l.perToken, m.perToken),
	}
}

func (w *Work) bytes() float64 { return float64(max(w.Input, 1)) }

func (w *Work) tokens() float64 {
	if w.Output <= 0 {
		return math.Inf(1)
	}
	return float64(w.Output)
}

// beginnings is what is known of each kind. It is read with every request, so reading takes no lock.
type beginnings struct {
	kinds atomic.Pointer[map[kind]*beginning] // replaced when a kind is new, under the desk's mutex
}

// beginning is what is known of one kind.
type beginning struct {
	soonest atomic.Pointer[soonest]
	tried   atomic.Pointer[time.Time] // when one was last tried that seemed too late; at first: the first sample
}

// tryAgain says that a request may be tried although it seems too late.
func (b *beginning) tryAgain(now time.Time) bool {
	last := b.tried.Load()
	return now.Sub(*last) >= half && b.tried.CompareAndSwap(last, &now)
}

// lastMoment is when a request of w's kind must have its permit, to have its first byte by then.
func (b *beginnings) lastMoment(now, firstBy time.Time, w *Work) time.Time {
	known := b.of(w.kind())
	if known == nil {
		return firstBy
	}
	moment := firstBy.Add(-known.soonest.Load().bound(now, w))
	if seemsLate := !now.Before(moment) && now.Before(firstBy); seemsLate && known.tryAgain(now) {
		return firstBy
	}
	return moment
}

// of returns nil for a kind that is not known.
func (b *beginnings) of(k kind) *beginning {
	if kinds := b.kinds.Load(); kinds != nil {
		return (*kinds)[k]
	}
	return nil
}

// add takes a sample of a kind that is known, and reports whether it is. Most samples change nothing, and cost nothing.
func (b *beginnings) add(now time.Time, w *Work, took time.Duration) bool {
	of := b.of(w.kind())
	if of == nil {
		return false
	}
	for {
		known := of.soonest.Load()
		next := known.with(now, w, took)
		if next == *known {
			return true
		}
		changed := next // a copy, so that only what is kept is allocated
		if of.soonest.CompareAndSwap(known, &changed) {
			return true
		}
	}
}

// states is what is known of each kind.
func (b *beginnings) states(now time.Time) []SoonestState {
	states := []SoonestState{}
	kinds := b.kinds.Load()
	if kinds == nil {
		return states
	}
	for k, of := range *kinds {
		most := Work{Input: math.MaxInt} // nothing asks for more
		if bound := of.soonest.Load().bound(now, &most); bound > 0 {
			ms := float64(bound) / float64(time.Millisecond)
			states = append(states, SoonestState{Model: k.model, Path: k.path, Streamed: k.streamed, Millis: ms})
		}
	}
	slices.SortFunc(states, func(x, y SoonestState) int {
		return cmp.Or(
			strings.Compare(x.Model, y.Model), strings.Compare(x.Path, y.Path), rank(x.Streamed)-rank(y.Streamed))
	})
	return states
}

func rank(last bool) int {
	if last {
		return 1
	}
	return 0
}

// knowLocked makes room for another kind, in the place of those that nobody has asked for lately. The desk's mutex is
// held.
func (b *beginnings) knowLocked(now time.Time, k kind) {
	if b.of(k) != nil {
		return
	}
	kinds := map[kind]*beginning{}
	if old := b.kinds.Load(); old != nil {
		maps.Copy(kinds, *old)
		maps.DeleteFunc(kinds, func(_ kind, of *beginning) bool { return now.Sub(of.soonest.Load().turned) >= 2*half })
	}
	kinds[k] = new(beginning)
	kinds[k].soonest.Store(&soonest{turned: now})
	kinds[k].tried.Store(&now)
	b.kinds.Store(&kinds)
}
