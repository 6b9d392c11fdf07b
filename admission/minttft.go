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

// Work is what a request asks of an engine, as far as that determines how soon its answer can begin.
type Work struct {
	Model    string // name in the table
	Path     string // of the API; one of a fixed set
	Streamed bool
	Input    int // bytes
	Output   int // the most tokens that are generated before the first byte; 0: not known, or none
}

// class is what times are measured for: each model, and each API of one, takes its own.
type class struct {
	model, path string
	streamed    bool
}

func (w *Work) class() class { return class{w.Model, w.Path, w.Streamed} }

// minTTFT is the least time to first token (TTFT) that requests of one class have lately had, from dispatch to the first
// byte: a lower bound for the next one. A value does not change; time is passed in.
//
// Two windows follow each other, so a sample counts for one to two times windowLen, and is then forgotten: an engine that
// has become slower is noticed by then, and requests are tried again where none was served since. An engine that has become
// faster is noticed at once.
//
// The bound must not refuse a request that could have been served. So it is the least of all samples, over all endpoints of
// the pool, and only if these are so many that another request like them is unlikely (1 in 17) to be faster than all. For a
// request of less work than theirs, it is less in proportion: that is still a lower bound where the time is a constant plus
// a part that grows with the work. Otherwise small requests might never be tried while large ones are served. The bound
// knows nothing of what else makes a request faster than the samples: a prompt that is in the engine's cache, an answer
// that happens to be short, an engine that has become less busy. So of the requests that seem too late on arrival, one for
// each windowLen is tried all the same (takeTrial), and shows if the bound is wrong.
type minTTFT struct {
	newerBegan time.Time // when the newer window began
	newer      window
	older      window
}

// window has the least of the samples of some time.
type window struct {
	n        int     // samples, up to minSamples
	least    float64 // nanoseconds
	perByte  float64 // nanoseconds for each byte of input
	perToken float64 // for each token of Work.Output; 0 where that is not known
}

const (
	windowLen  = 10 * time.Second
	minSamples = 16 // samples
)

// add returns s with one more sample.
func (s minTTFT) add(now time.Time, w *Work, took time.Duration) minTTFT {
	s = s.aged(now)
	x := float64(max(took, 0))
	s.newer = s.newer.merge(window{n: 1, least: x, perByte: x / w.bytes(), perToken: x / w.tokens()})
	return s
}

// aged returns s without the samples that are too old by now.
func (s minTTFT) aged(now time.Time) minTTFT {
	switch age := now.Sub(s.newerBegan); {
	case age >= 2*windowLen:
		return minTTFT{newerBegan: now}
	case age >= windowLen:
		return minTTFT{newerBegan: s.newerBegan.Add(windowLen), older: s.newer}
	}
	return s
}

// bound returns the least time that w takes from dispatch to the first byte; 0 while that is not known.
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

// ttftByClass has the minTTFT of each class. It is read with every request, so reads take no lock.
type ttftByClass struct {
	classes atomic.Pointer[map[class]*classTTFT] // replaced when a class is new, under the manager's mutex
}

// classTTFT is the minTTFT of one class.
type classTTFT struct {
	min       atomic.Pointer[minTTFT]
	lastTrial atomic.Pointer[time.Time] // when a request that seemed too late was last tried; at first: the first sample
}

// takeTrial reports whether a request that seems too late is to be tried, and counts it as tried.
func (b *classTTFT) takeTrial(now time.Time) bool {
	last := b.lastTrial.Load()
	return now.Sub(*last) >= windowLen && b.lastTrial.CompareAndSwap(last, &now)
}

// latestStart returns when a request must have its permit to get its first byte by firstBy.
func (b *ttftByClass) latestStart(now, firstBy time.Time, w *Work) time.Time {
	known := b.of(w.class())
	if known == nil {
		return firstBy
	}
	latest := firstBy.Add(-known.min.Load().bound(now, w))
	if seemsLate := !now.Before(latest) && now.Before(firstBy); seemsLate && known.takeTrial(now) {
		return firstBy
	}
	return latest
}

// of returns nil for a class that is not known.
func (b *ttftByClass) of(k class) *classTTFT {
	if kinds := b.classes.Load(); kinds != nil {
		return (*kinds)[k]
	}
	return nil
}

// add counts a sample of a class that is known, and reports whether it is. Most samples change nothing, and allocate
// nothing.
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
		changed := next // a copy, so that only a value that is kept is allocated
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
		most := Work{Input: math.MaxInt} // more work than any sample
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

// addClassLocked adds a class, and drops those without a sample for two windows. The manager's mutex is held.
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
