package admission

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"colonnade/discovery/engines/figures"
	"colonnade/fleet"
	"colonnade/permits"
)

// ReadFigures reads the metrics of the engine of an endpoint. The error wraps [ErrNoFigures] if there are none.
type ReadFigures func(context.Context, *fleet.Endpoint) (figures.Figures, error)

// ErrNoFigures is the error of an engine that has no metrics, or none that are known.
var ErrNoFigures = errors.New("engine has no metrics")

const (
	figuresValid   = 3                // intervals of the health checks, for which figures are believed; but
	minValid       = time.Second      // at least
	rareReading    = 10 * time.Minute // time between two questions to an engine that has no metrics
	recentQueries  = 3                // answers, whose greatest number of own requests counts as ours
	prefixInterval = 30 * time.Second // the share of hits is that of the last one to two of these
)

// SetFigures sets how the metrics of engines are read. It must be called before Run.
func (m *Manager) SetFigures(read ReadFigures) { m.readFigures = read }

// engineFigures is what an engine has said about itself.
type engineFigures struct {
	last figures.Figures
	at   time.Time // when it was said; zero: nothing is known
	err  string    // of the last question

	ours   [recentQueries]int // slots that were taken at the last questions
	beside int                // requests that it had beside these; see besideLocked
	prefix prefixWindow
}

// prefixWindow has the counters of the prefix cache a while ago.
type prefixWindow struct {
	hits, queries [2]float64 // the older first
	since         time.Time  // of the newer
	rate          float64
	known         bool
}

// add takes the counters of an answer, and reports whether they have begun anew, as they do with the engine.
func (w *prefixWindow) add(now time.Time, hits, queries float64) (anew bool) {
	if anew = queries < w.queries[1] || hits < w.hits[1]; anew || w.since.IsZero() {
		*w = prefixWindow{hits: [2]float64{hits, hits}, queries: [2]float64{queries, queries}, since: now}
		w.rate, w.known = hits/queries, queries > 0 // of all its time, which is all that is known
		return anew
	}
	if looked := queries - w.queries[0]; looked > 0 {
		w.rate, w.known = (hits-w.hits[0])/looked, true
	}
	if now.Sub(w.since) >= prefixInterval {
		w.hits, w.queries, w.since = [2]float64{w.hits[1], hits}, [2]float64{w.queries[1], queries}, now
	}
	return false
}

// followFigures reads the metrics of one engine at the interval of its health checks, one question at a time.
func (m *Manager) followFigures(ctx context.Context, e *engine) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.reread:
		case <-next.C:
		}
		next.Reset(m.askFigures(ctx, e))
	}
}

// readAgain lets the engine be asked at once: it has answered a health check for the first time, or its document has changed. The manager's mutex
// is held.
func (e *engine) readAgain() {
	select {
	case e.reread <- struct{}{}:
	default:
	}
}

// askFigures asks the engine once, unless it is out or its metrics are not to be read, and returns the time to the next question.
func (m *Manager) askFigures(ctx context.Context, e *engine) time.Duration {
	doc, up, held := m.beforeFigures(e)
	if doc.MetricsPath() == "" {
		m.forgetFigures(e)
		return rareReading // a changed document wakes the reader
	}
	interval := doc.Health.Interval.Std()
	interval += rand.N(max(interval/5, 1)) - interval/10
	if !up {
		return interval
	}
	limited, cancel := context.WithTimeout(ctx, doc.Health.Timeout.Std())
	said, err := m.readFigures(limited, doc)
	cancel()
	if err == nil && !said.Known() {
		err = fmt.Errorf("%w that are known at %s", ErrNoFigures, doc.MetricsPath())
	}
	if ctx.Err() == nil {
		m.noteFigures(e, doc, answeredFigures{said, err, held})
	}
	if errors.Is(err, ErrNoFigures) {
		return max(interval, rareReading)
	}
	return interval
}

// answeredFigures is the answer to one question.
type answeredFigures struct {
	figures.Figures
	err  error
	held int // slots that were taken before it
}

// beforeFigures returns the engine's document, whether the engine is up, and how many of its slots are taken.
func (m *Manager) beforeFigures(e *engine) (doc *fleet.Endpoint, up bool, held int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-e.reread: // what it is about is known from here on, since it was sent under the mutex
	default:
	}
	if e.pool == nil || !e.granted {
		return e.endpoint, false, 0
	}
	state := e.health.state()
	return e.endpoint, e.health.answered && state != stateDown && state != stateSilent, e.pool.permits.Busy(e.endpoint.URL)
}

// noteFigures takes an answer.
func (m *Manager) noteFigures(e *engine, doc *fleet.Endpoint, a answeredFigures) {
	if a.err == nil {
		m.NoteAdapters(doc.URL, a.Adapters)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.pool == nil || !e.granted || e.endpoint.MetricsPath() != doc.MetricsPath() {
		return
	}
	now, f := time.Now(), &e.figures
	if a.err != nil {
		f.err = truncate(a.err.Error())
		if errors.Is(a.err, ErrNoFigures) {
			e.loseFiguresLocked(now)
		}
		return
	}
	held := max(a.held, e.pool.permits.Busy(doc.URL))
	copy(f.ours[1:], f.ours[:])
	f.ours[0] = held
	f.last, f.at, f.err = a.Figures, now, ""
	if a.PrefixQueries.Known {
		if f.prefix.add(now, a.PrefixHits.N, a.PrefixQueries.N) || a.PrefixQueries.N < e.prompted {
			e.loseMemoryLocked()
		}
		e.prompted = a.PrefixQueries.N
	}
	e.fitCacheLocked()
	e.besideLocked()
	e.pressLocked(now, held, true)
}

// besideLocked finds how many requests the engine has that are not of this colo: those that it runs or has waiting, without ours. Of ours,
// the greatest number at the last questions counts: some engines renew their metrics only every few seconds.
func (e *engine) besideLocked() {
	f := &e.figures
	ours, has := 0, 0.0
	for _, n := range f.ours {
		ours = max(ours, n)
	}
	if f.last.Running.Known {
		has = f.last.Running.N + f.last.Waiting.N
	}
	f.beside = max(0, int(min(has, math.MaxInt32))-ours)
	e.pool.permits.SetBeside(e.endpoint.URL, f.beside)
}

// pressLocked tells the limit that is found what the engine says; ok is false if it is not known any more.
func (e *engine) pressLocked(now time.Time, held int, ok bool) {
	if !e.adapts() || !e.granted {
		return
	}
	f := &e.figures.last
	l := engineLoad{
		running: int(min(f.Running.N, math.MaxInt32)), waiting: int(min(f.Waiting.N, math.MaxInt32)), known: f.Running.Known && f.Waiting.Known,
		full: f.KVCache.Known && f.KVCache.N >= fullCache, held: held,
	}
	e.adaptLocked(now, func(now time.Time, limit *gradient) { limit.report(now, l, ok) })
}

// loseFiguresLocked forgets what the engine has said, but for why it says nothing now.
func (e *engine) loseFiguresLocked(now time.Time) {
	if e.figures.at.IsZero() {
		return
	}
	e.figures = engineFigures{err: e.figures.err}
	e.fitCacheLocked()
	if e.pool != nil {
		e.pool.permits.SetBeside(e.endpoint.URL, 0)
		e.pressLocked(now, 0, false)
	}
}

// forgetFigures forgets what the engine has said, since its document says that it is not asked.
func (m *Manager) forgetFigures(e *engine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.loseFiguresLocked(time.Now())
	e.figures.err = ""
}

// ageFiguresLocked forgets what engines have said too long ago.
func (m *Manager) ageFiguresLocked(now time.Time) {
	for _, e := range m.engines {
		if at := e.figures.at; !at.IsZero() && (!e.granted || now.Sub(at) > max(figuresValid*e.endpoint.Health.Interval.Std(), minValid)) {
			e.loseFiguresLocked(now)
		}
	}
}

// stats describes what the engine says; nil if it is not asked.
func (f *engineFigures) stats(now time.Time, doc *fleet.Endpoint) *permits.EngineStats {
	if doc.MetricsPath() == "" || f.at.IsZero() && f.err == "" {
		return nil
	}
	s := &permits.EngineStats{Error: f.err}
	if f.at.IsZero() {
		return s
	}
	s.AgeSeconds = new(max(0, now.Sub(f.at).Seconds()))
	s.Running, s.Waiting = whole(f.last.Running), whole(f.last.Waiting)
	if s.Running != nil {
		s.Beside = new(f.beside)
	}
	s.KVCache, s.PrefixHits = share(f.last.KVCache), share(f.last.PrefixRate)
	if f.prefix.known {
		s.PrefixHits = new(f.prefix.rate)
	}
	s.PrefixQueried, s.PrefixFound = share(f.last.PrefixQueries), share(f.last.PrefixHits)
	s.Adapters = f.last.Adapters
	return s
}

func whole(v figures.Value) *int {
	if !v.Known {
		return nil
	}
	return new(int(min(v.N, math.MaxInt32)))
}

func wholeTokens(v figures.Value) *int64 {
	if !v.Known {
		return nil
	}
	return new(int64(min(v.N, maxCacheTokens)))
}

func share(v figures.Value) *float64 {
	if !v.Known {
		return nil
	}
	return &v.N
}
