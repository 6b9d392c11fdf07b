package admission

import (
	"math"
	"time"
)

// learned returns what the answers of the engine have shown.
func (g *gradient) learned() *AutoLearned {
	l := &AutoLearned{Limit: g.limit, Samples: g.samples}
	for size, a := range g.averages {
		if a.n > 0 {
			l.Averages = append(l.Averages, AverageLearned{Size: size, N: min(a.n, averageWindow), Mean: a.mean})
		}
	}
	return l
}

// maxMeanLog bounds the logarithm of a time to first token that another server tells: e^12 s is two days.
const maxMeanLog = 12

// adoptLearned continues with the limit and the averages that another server has found, within the bounds of the document. Values that cannot be
// true are left out.
func (g *gradient) adoptLearned(now time.Time, l *AutoLearned) {
	if !(l.Limit >= 1) || math.IsInf(l.Limit, 0) || l.Samples == 0 {
		return
	}
	for _, a := range l.Averages {
		if a.Size >= 0 && a.Size < sizes && a.N > 0 && math.Abs(a.Mean) <= maxMeanLog {
			g.averages[a.Size] = average{mean: a.Mean, n: min(a.N, averageWindow)}
		}
	}
	g.samples = min(l.Samples, 1<<40)
	g.growingFast = false
	g.setLimit(now, l.Limit)
}

// learned returns the minimum TTFT of each class that has one, but for what is too old.
func (b *ttftByClass) learned(now time.Time) (all []TTFTLearned) {
	kinds := b.classes.Load()
	if kinds == nil {
		return nil
	}
	for k, of := range *kinds {
		s := of.min.Load().aged(now)
		w := s.newer.merge(s.older)
		if w.n == 0 || len(all) == maxClasses {
			continue
		}
		l := TTFTLearned{
			Model: k.model, Path: k.path, Streamed: k.streamed, N: w.n, AgeMillis: now.Sub(s.newerBegan).Milliseconds(),
			Least: w.least, PerByte: w.perByte,
		}
		if !math.IsInf(w.perToken, 0) {
			l.PerToken = w.perToken
		}
		all = append(all, l)
	}
	return all
}

// adoptLocked takes over the minimum TTFT of a class that has none here, age ago. The manager's mutex is held.
func (b *ttftByClass) adoptLocked(now time.Time, l *TTFTLearned, age time.Duration) {
	k := class{l.Model, l.Path, l.Streamed}
	age += time.Duration(min(max(l.AgeMillis, 0), 2*windowLen.Milliseconds())) * time.Millisecond
	if l.N < 1 || len(l.Model) > maxName || len(l.Path) > maxName || age >= 2*windowLen || b.of(k) != nil {
		return
	}
	w := window{n: min(l.N, minSamples), least: l.Least, perByte: l.PerByte, perToken: l.PerToken}
	for _, x := range []float64{w.least, w.perByte, w.perToken} {
		if !(x >= 0 && x <= float64(time.Hour)) {
			return
		}
	}
	if w.perToken == 0 {
		w.perToken = math.Inf(1)
	}
	b.addClassLocked(now, k)
	b.of(k).min.Store(&minTTFT{newerBegan: now.Add(-age), newer: w})
}
