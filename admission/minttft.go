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

// class is what is measured apart: other models, or the other APIs of one, take other times.
type class struct {
	model, path string
	streamed    bool
}

func (w *Work) class() class { return class{w.Model, w.Path, w.Streamed} }

// minTTFT is how soon the answers to one kind of work have lately begun, from dispatch to the first byte: the least
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
type minTTFT struct {
	newerBegan time.Time // when the newer half began
	newer      window
	older      window
}

// window is what was measured in some time.
type window struct {
	n        int     // samples, up to enough of them
	least    float64 // nanoseconds
	perByte  float64 // of input
	perToken float64 // that it might generate; 0 where nobody knew how many
}

const (
	windowLen  = 10 * time.Second
	minSamples = 16 // samples
)

// add is what is known after another sample.
func (s minTTFT) add(now time.Time, w *Work, took time.Duration) minTTFT {
	s = s.aged(now)
	x := float64(max(took, 0))
	s.newer = s.newer.merge(window{n: 1, least: x, perByte: x / w.bytes(), perToken: x / w.tokens()})
	return s
}

// aged is what is left of it at a later moment.
func (s minTTFT) aged(now time.Time) minTTFT {
	switch age := now.Sub(s.newerBegan); {
	case age >= 2*windowLen:
		return minTTFT{newerBegan: now}
	case age >= windowLen:
		return minTTFT{newerBegan: s.newerBegan.Add(windowLen), older: s.newer}
	}
	return s
}

// bound is the least that it will take from dispatch to the first byte; 0 while that is not known.
func (s minTTFT) bound(now time.Time, w *Work) time.Duration {
	s = s.aged(now)
	l := s.newer.merge(s.older)
	if l.n < minSamples {
		return 0
	}
	bound := min(l.least, l.perByte*w.bytes())
	if w.Output > 0 {
		bound = min(bound, l.perToken*w.tokens())
	}
	return time.Duration(math.Round(bound))
}

func (l window) merge(m window) window {
	switch {
	case l.n == 0:
		return m
	case m.n == 0:
		return l
	}
	return window{
		n: min(l.n+m.n, minSamples), least: min(l.least, m.least),
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

// ttftByClass is what is known of each kind. It is read with every request, so reading takes no lock.
type ttftByClass struct {
	classes atomic.Pointer[map[class]*classTTFT] // replaced when a kind is new, under the manager's mutex
}

// classTTFT is what is known of one kind.
type classTTFT struct {
	min       atomic.Pointer[minTTFT]
	lastTrial atomic.Pointer[time.Time] // when one was last tried that seemed too late; at first: the first sample
}

// takeTrial says that a request may be tried although it seems too late.
func (b *classTTFT) takeTrial(now time.Time) bool {
	last := b.lastTrial.Load()
	return now.Sub(*last) >= windowLen && b.lastTrial.CompareAndSwap(last, &now)
}

// latestStart is when a request of w's kind must have its permit, to have its first byte by then.
func (b *ttftByClass) latestStart(now, firstBy time.Time, w *Work) time.Time {
	known := b.of(w.class())
	if known == nil {
		return firstBy
	}
	moment := firstBy.Add(-known.min.Load().bound(now, w))
	if seemsLate := !now.Before(moment) && now.Before(firstBy); seemsLate && known.takeTrial(now) {
		return firstBy
	}
	return moment
}

// of returns nil for a kind that is not known.
func (b *ttftByClass) of(k class) *classTTFT {
	if kinds := b.classes.Load(); kinds != nil {
		return (*kinds)[k]
	}
	return nil
}

// add takes a sample of a kind that is known, and reports whether it is. Most samples change nothing, and cost nothing.
func (b *ttftByClass) add(now time.Time, w *Work, took time.Duration) bool {
	of := b.of(w.class())
	if of == nil {
		return false
	}
	for {
		known := of.min.Load()
		next := known.add(now, w, took)
		if next == *known {
			return true
		}
		changed := next // a copy, so that only what is kept is allocated
		if of.min.CompareAndSwap(known, &changed) {
			return true
		}
	}
}

// stats returns the bound of each class that has one.
func (b *ttftByClass) stats(now time.Time) []MinTTFT {
	all := []MinTTFT{}
	kinds := b.classes.Load()
	if kinds == nil {
		return all
	}
	for k, of := range *kinds {
		most := Work{Input: math.MaxInt} // nothing asks for more
		if bound := of.min.Load().bound(now, &most); bound > 0 {
			ms := float64(bound) / float64(time.Millisecond)
			all = append(all, MinTTFT{Model: k.model, Path: k.path, Streamed: k.streamed, Millis: ms})
		}
	}
	slices.SortFunc(all, func(x, y MinTTFT) int {
		return cmp.Or(
			strings.Compare(x.Model, y.Model), strings.Compare(x.Path, y.Path), rank(x.Streamed)-rank(y.Streamed))
	})
	return all
}

func rank(last bool) int {
	if last {
		return 1
	}
	return 0
}

// addClassLocked makes room for another kind, in the place of those that nobody has asked for lately. The manager's mutex is
// held.
func (b *ttftByClass) addClassLocked(now time.Time, k class) {
	if b.of(k) != nil {
		return
	}
	kinds := map[class]*classTTFT{}
	if old := b.classes.Load(); old != nil {
		maps.Copy(kinds, *old)
		maps.DeleteFunc(kinds, func(_ class, of *classTTFT) bool { return now.Sub(of.min.Load().newerBegan) >= 2*windowLen })
	}
	kinds[k] = new(classTTFT)
	kinds[k].min.Store(&minTTFT{newerBegan: now})
	kinds[k].lastTrial.Store(&now)
	b.classes.Store(&kinds)
}
