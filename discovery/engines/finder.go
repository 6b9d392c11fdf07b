package engines

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"colonnade/fleet/document"
	"colonnade/internal/ctxtime"
)

// Config states which engines a Finder asks.
type Config struct {
	URLs []string // without http:// where that is meant, or with it
	Colo string   // of the documents

	Interval time.Duration // between two questions to an engine that answered; 0 = 10 s
	Retry    time.Duration // until an engine is asked again that did not answer; doubles up to 10 s; 0 = 250 ms

	Report func(line string)    // gets lines for the operator: what is waited for, what was found; nil = Logger gets them
	Logger *slog.Logger         // nil = none
	Found  func([]document.Raw) // gets all documents whenever they change; nil = none
}

const (
	defaultInterval = 10 * time.Second
	defaultRetry    = 250 * time.Millisecond
	longestRetry    = 10 * time.Second
	jitter          = 0.2
)

// Finder asks engines what they are until they answer, and from time to time after that. Its functions Report and Found are called one after
// the other.
type Finder struct {
	c        Config
	ask      func(ctx context.Context, url string, before *Engine) (*Engine, error)
	complete chan struct{}

	mu        sync.Mutex // guards the fields below, and is held while Report and Found are called
	targets   []*target
	published []document.Raw
	refused   string // the last error of engines that do not go together
}

// target is one URL.
type target struct {
	url    string
	answer *Engine // the last; nil = none yet
	used   *Engine // the one that the published documents describe; nil = none
	wait   waiting
}

// New returns a Finder. It asks nothing before Run.
func New(c Config) *Finder {
	if c.Interval <= 0 {
		c.Interval = defaultInterval
	}
	if c.Retry <= 0 {
		c.Retry = defaultRetry
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Report == nil {
		logger := c.Logger
		c.Report = func(line string) { logger.Info("engines", "state", line) }
	}
	if c.Found == nil {
		c.Found = func([]document.Raw) {}
	}
	return &Finder{c: c, ask: askAgain, complete: make(chan struct{})}
}

// Complete returns a channel that is closed once every engine has answered, after Found got the documents.
func (f *Finder) Complete() <-chan struct{} { return f.complete }

// Run asks until ctx ends, which is no error. It returns an error at once for a URL that no engine may have. A URL that is no engine, or
// one that does not go together with another, is an error of Run if the first question to it shows that, or if no engine was found yet.
func (f *Finder) Run(ctx context.Context) error {
	if err := f.setTargets(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var asking sync.WaitGroup
	fatal := make(chan error, len(f.targets))
	for _, t := range f.targets {
		asking.Go(func() {
			if err := f.follow(ctx, t); err != nil {
				fatal <- err
				cancel()
			}
		})
	}
	asking.Wait()
	select {
	case err := <-fatal:
		return err
	default:
		return nil
	}
}

func (f *Finder) setTargets() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var bad []error
	for _, raw := range f.c.URLs {
		url, err := normalURL(raw)
		switch {
		case err != nil:
			bad = append(bad, err)
		case slices.ContainsFunc(f.targets, func(t *target) bool { return t.url == url }):
			f.c.Report(url + " is given twice; it is asked once")
		default:
			f.targets = append(f.targets, &target{url: url})
		}
	}
	return errors.Join(bad...)
}

// follow asks one engine again and again. It returns the error that ends Run.
func (f *Finder) follow(ctx context.Context, t *target) error {
	pause := f.c.Retry
	for first := true; ; first = false {
		e, err := f.ask(ctx, t.url, f.answerOf(t))
		if ctx.Err() != nil {
			return nil
		}
		unusable := (*NotEngineError)(nil)
		if errors.As(err, &unusable) && (first || f.foundNone()) {
			return err
		}
		if err == nil {
			if err := f.answered(t, e, first); err != nil {
				return err
			}
			pause = f.c.Retry
			if !ctxtime.Sleep(ctx, jittered(f.c.Interval)) {
				return nil
			}
			continue
		}
		f.failed(t, err)
		if !ctxtime.Sleep(ctx, jittered(pause)) {
			return nil
		}
		pause = min(2*pause, max(longestRetry, f.c.Retry))
	}
}

func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64()))
}

func (f *Finder) failed(t *target, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if line := t.wait.failed(time.Now(), t, err); line != "" {
		f.c.Report(line)
	}
}

// answered takes the answer of an engine and publishes the documents if they change. The error says that the first answer does not go
// together with others; later it is reported instead.
func (f *Finder) answered(t *target, e *Engine, first bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if line := t.wait.answered(t.url, t.answer != nil); line != "" {
		f.c.Report(line)
	}
	if !reflect.DeepEqual(t.answer, e) {
		for _, line := range e.Lines() {
			f.c.Report(line)
		}
	}
	t.answer = e
	docs, err := f.combine()
	if err != nil && first && t.used != t.answer {
		return err
	}
	f.reportRefused(err)
	if !slices.EqualFunc(docs, f.published, sameDocument) {
		f.published = docs
		f.c.Found(docs)
	}
	f.closeComplete()
	return nil
}

// reportRefused reports engines that do not go together, once for as long as they do not.
func (f *Finder) reportRefused(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != f.refused {
		f.c.Report(text)
	}
	f.refused = text
}

func (f *Finder) answerOf(t *target) *Engine {
	f.mu.Lock()
	defer f.mu.Unlock()
	return t.answer
}

// foundNone reports whether no engine has answered.
func (f *Finder) foundNone() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !slices.ContainsFunc(f.targets, func(t *target) bool { return t.answer != nil })
}

func (f *Finder) closeComplete() {
	if slices.ContainsFunc(f.targets, func(t *target) bool { return t.answer == nil }) {
		return
	}
	select {
	case <-f.complete:
	default:
		close(f.complete)
	}
}

func sameDocument(a, b document.Raw) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }

// combine chooses which answers are in force, and returns their documents. Where not all answers go together, engines stay as they
// were published, as far as that is possible, and the error says which answers are not in force.
func (f *Finder) combine() ([]document.Raw, error) {
	answers, used := make([]*Engine, len(f.targets)), make([]*Engine, len(f.targets))
	for i, t := range f.targets {
		answers[i] = t.answer
	}
	docs, err := Documents(f.c.Colo, answers)
	if err == nil {
		for i, t := range f.targets {
			t.used = answers[i]
		}
		return docs, nil
	}
	for i, t := range f.targets { // these went together before
		used[i] = t.used
	}
	docs, _ = Documents(f.c.Colo, used)
	for i := range f.targets {
		before := used[i]
		used[i] = answers[i]
		if with, err := Documents(f.c.Colo, used); err == nil {
			docs = with
		} else {
			used[i] = before
		}
	}
	for i, t := range f.targets {
		t.used = used[i]
	}
	return docs, err
}
