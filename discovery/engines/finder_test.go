package engines

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/fleet/document"
	"colonnade/internal/testkit"
)

// fakeEngines answers a Finder's questions by URL.
type fakeEngines struct {
	mu      sync.Mutex     // guards the fields below
	answers map[string]any // *Engine or error
	asked   map[string]int
	slow    map[string]time.Duration // until an answer
	lines   []string
	docs    [][]document.Raw
}

func (f *fakeEngines) set(url string, answer any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e, ok := answer.(*Engine); ok {
		e.URL = url
	}
	if f.answers == nil {
		f.answers, f.asked = map[string]any{}, map[string]int{}
	}
	f.answers[url] = answer
}

func (f *fakeEngines) ask(_ context.Context, url string, _ *Engine) (*Engine, error) {
	time.Sleep(f.slow[url])
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[url]++
	switch answer := f.answers[url].(type) {
	case *Engine:
		copied := *answer
		return &copied, nil
	case error:
		return nil, answer
	}
	return nil, errors.New("connection refused")
}

func (f *fakeEngines) report(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, line)
}

func (f *fakeEngines) found(docs []document.Raw) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.docs = append(f.docs, docs)
}

// take returns the lines and the number of publications since the last call, and the newest documents.
func (f *fakeEngines) take() (lines string, publications int, docs string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines, publications = strings.Join(f.lines, "\n"), len(f.docs)
	if publications > 0 {
		docs = fmt.Sprintf("%s", f.docs[publications-1])
	}
	f.lines, f.docs = nil, nil
	return lines, publications, docs
}

func (f *fakeEngines) questions(url string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[url]
}

// start runs a Finder until the returned function is called, which returns the error of Run.
func (f *fakeEngines) start(urls ...string) (finder *Finder, stop func() error) {
	finder = New(Config{URLs: urls, Colo: "local", Report: f.report, Found: f.found})
	finder.ask = f.ask
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- finder.Run(ctx) }()
	return finder, func() error {
		cancel()
		return <-ended
	}
}

func isComplete(f *Finder) bool {
	select {
	case <-f.Complete():
		return true
	default:
		return false
	}
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("got %q, want it to contain %q", text, part)
		}
	}
}

// An engine that is not up is waited for visibly: at once, then every half minute, and found when it comes up.
func TestFinderWaitsForEngines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fake fakeEngines
		fake.set("http://a:1", &Engine{Kind: "vllm", Version: "1", Models: []Model{chat("m")}, Notes: []string{"An assumption."}})
		fake.set("http://b:1", errors.New("http://b:1: connection refused"))
		finder, stop := fake.start("http://a:1", "b:1", "http://b:1/v1")
		synctest.Wait()
		lines, publications, docs := fake.take()
		contains(t, lines, "waiting for http://b:1: connection refused", "found http://a:1: vLLM 1, model m (chat), concurrency auto", "An assumption.", "given twice")
		contains(t, docs, "models/m", "endpoints/local/a-1")
		if publications != 1 || isComplete(finder) {
			t.Errorf("%d publications, complete %v", publications, isComplete(finder))
		}
		time.Sleep(2 * time.Minute)
		if lines, _, _ = fake.take(); strings.Count(lines, "waiting for http://b:1, for ") < 2 || strings.Count(lines, "\n") > 4 {
			t.Errorf("reminders of two minutes: %q", lines)
		}
		fake.set("http://b:1", &Engine{Kind: "vllm", Models: []Model{chat("n")}})
		time.Sleep(longestRetry + longestRetry/4)
		lines, publications, docs = fake.take()
		contains(t, lines, "found http://b:1")
		contains(t, docs, "models/m", "models/n", "endpoints/local/b-1")
		if publications != 1 || !isComplete(finder) {
			t.Errorf("%d publications, complete %v", publications, isComplete(finder))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Neither an engine that is away nor one that answers is asked often.
func TestFinderAsksAtLongIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fake fakeEngines
		fake.set("http://a:1", &Engine{Kind: "vllm", Models: []Model{chat("m")}})
		_, stop := fake.start("http://a:1", "http://b:1")
		time.Sleep(time.Second)
		if n := fake.questions("http://b:1"); n < 2 {
			t.Errorf("%d questions in the first second", n)
		}
		time.Sleep(time.Hour)
		up, away := fake.questions("http://a:1"), fake.questions("http://b:1")
		if up < 300 || up > 460 || away < 300 || away > 460 {
			t.Errorf("%d questions to an engine that answers, %d to one that is away", up, away)
		}
		if _, publications, _ := fake.take(); publications != 1 {
			t.Errorf("%d publications of documents that never changed", publications)
		}
		_ = stop()
	})
}

// An engine that restarts with another model or with other slots changes its documents; while it is away they stay.
func TestFinderFollowsARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fake fakeEngines
		fake.set("http://a:1", &Engine{Kind: "llamacpp", Models: []Model{chat("m")}, Slots: 4})
		_, stop := fake.start("http://a:1")
		synctest.Wait()
		fake.take()
		fake.set("http://a:1", errors.New("http://a:1: connection refused"))
		time.Sleep(time.Minute)
		lines, publications, _ := fake.take()
		contains(t, lines, "documents of http://a:1 stay in force, but it does not answer as an engine: connection refused")
		if publications != 0 {
			t.Errorf("%d publications while the engine is away", publications)
		}
		fake.set("http://a:1", &Engine{Kind: "llamacpp", Models: []Model{chat("m")}, Slots: 8})
		time.Sleep(time.Minute)
		lines, _, docs := fake.take()
		contains(t, lines, "answers again", "concurrency 8")
		contains(t, docs, "concurrency: 8")
		if n := strings.Count(lines, "answers again"); n != 1 {
			t.Errorf("%d lines that it answers again", n)
		}
		fake.set("http://a:1", errors.New("http://a:1: connection refused"))
		time.Sleep(time.Minute)
		lines, _, _ = fake.take()
		contains(t, lines, "documents of http://a:1 stay in force, but it does not answer as an engine: connection refused")
		fake.set("http://a:1", &Engine{Kind: "llamacpp", Models: []Model{chat("n")}, Slots: 8})
		time.Sleep(time.Minute)
		_, _, docs = fake.take()
		contains(t, docs, "models/n")
		if strings.Contains(docs, "models/m") {
			t.Errorf("the old model is still there: %s", docs)
		}
		_ = stop()
	})
}

// A Finder ends on a first answer that only an operator can change.
func TestFinderEndsOnAFirstAnswerThatCannotBeUsed(t *testing.T) {
	f := func(want string, a, b any) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			var fake fakeEngines
			fake.set("http://a:1", a)
			fake.set("http://b:1", b)
			_, stop := fake.start("http://a:1", "http://b:1")
			synctest.Wait()
			if err := stop(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
	engine := func(length int) *Engine {
		return &Engine{Kind: "vllm", Models: []Model{{Name: "m", Upstream: "m", Type: "chat", MaxModelLen: length}}}
	}
	f("", engine(1), engine(1))
	f("max_model_len", engine(1), engine(2))
	f("GET / is a teapot", engine(1), &NotEngineError{URL: "http://b:1", Answer: "GET / is a teapot"})
	f("", engine(1), errors.New("connection refused"))

	synctest.Test(t, func(t *testing.T) {
		var fake fakeEngines
		_, stop := fake.start("http://a:1", "ftp://b")
		if err := stop(); err == nil || !strings.Contains(err.Error(), "http or https") {
			t.Errorf("got %v", err)
		}
		if fake.questions("http://a:1") != 0 {
			t.Error("asked, although a URL is wrong")
		}
	})
}

// As long as no engine was found, a URL that is no engine ends the Finder also if it did not answer at first.
func TestFinderEndsIfNothingWasFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fake fakeEngines
		fake.set("http://a:1", errors.New("http://a:1: connection refused"))
		fake.set("http://b:1", errors.New("http://b:1: connection refused"))
		_, stop := fake.start("http://a:1", "http://b:1")
		time.Sleep(time.Minute)
		fake.set("http://b:1", &NotEngineError{URL: "http://b:1", Answer: "a teapot"})
		time.Sleep(time.Minute)
		if err := stop(); err == nil || !strings.Contains(err.Error(), "a teapot") {
			t.Errorf("got %v", err)
		}
	})
}

// A Finder that has begun to serve goes on with what it has.
func TestFinderKeepsGoodDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fake fakeEngines
		engine := func(length int, more ...Model) *Engine {
			return &Engine{Kind: "vllm", Models: append([]Model{{Name: "m", Upstream: "m", Type: "chat", MaxModelLen: length}}, more...)}
		}
		fake.set("http://a:1", engine(1))
		fake.set("http://b:1", errors.New("down"))
		fake.set("http://c:1", errors.New("down"))
		_, stop := fake.start("http://a:1", "http://b:1", "http://c:1")
		synctest.Wait()
		fake.take()

		fake.set("http://b:1", engine(2))
		fake.set("http://c:1", &NotEngineError{URL: "http://c:1", Answer: "a teapot"})
		time.Sleep(3 * time.Minute)
		lines, publications, _ := fake.take()
		contains(t, lines, "max_model_len 1 and 2", "a teapot")
		if publications != 0 || strings.Count(lines, "max_model_len") != 1 {
			t.Errorf("%d publications, lines %q", publications, lines)
		}

		fake.set("http://c:1", engine(1)) // goes together with the first
		time.Sleep(time.Minute)
		_, _, docs := fake.take()
		contains(t, docs, "endpoints/local/a-1", "endpoints/local/c-1")
		if strings.Contains(docs, "b-1") {
			t.Errorf("an engine that does not go together: %s", docs)
		}

		fake.set("http://c:1", engine(1, chat("n"))) // its old documents stay true of it
		time.Sleep(time.Minute)
		lines, publications, _ = fake.take()
		contains(t, lines, "only http://c:1 serves n")
		if publications != 0 {
			t.Errorf("%d publications", publications)
		}

		for _, url := range []string{"http://a:1", "http://b:1", "http://c:1"} { // all are restarted with one limit, one after the other
			fake.set(url, engine(3))
			time.Sleep(time.Minute)
		}
		_, _, docs = fake.take()
		contains(t, docs, "max_model_len: 3", "a-1", "b-1", "c-1")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// The first answer of an engine ends nothing for the sake of two others that do not go together by then.
func TestFinderTakesAnEngineThatAnswersLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakeEngines{slow: map[string]time.Duration{"http://c:1": 5 * time.Minute}}
		limited := func(length int) *Engine {
			return &Engine{Kind: "vllm", Models: []Model{{Name: "m", Upstream: "m", Type: "chat", MaxModelLen: length}}}
		}
		fake.set("http://a:1", limited(1))
		fake.set("http://b:1", limited(1))
		fake.set("http://c:1", &Engine{Kind: "vllm", Models: []Model{chat("n")}})
		_, stop := fake.start("http://a:1", "http://b:1", "http://c:1")
		synctest.Wait()
		fake.set("http://b:1", limited(2))
		time.Sleep(10 * time.Minute)
		lines, _, docs := fake.take()
		contains(t, lines, "max_model_len 1 and 2")
		contains(t, docs, "models/n", "b-1")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// The same over the network, with an engine that comes up, and comes back with another model.
func TestFinderOverTheNetwork(t *testing.T) {
	t.Parallel()
	var model atomic.Pointer[string]
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := model.Load()
		if name == nil || r.URL.Path != "/v1/models" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%q}]}`, *name)
	}))
	t.Cleanup(engine.Close)
	var fake fakeEngines
	finder := New(Config{URLs: []string{engine.URL}, Colo: "local", Interval: time.Millisecond, Retry: time.Millisecond, Report: fake.report, Found: fake.found})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- finder.Run(ctx) }()
	seen := func(text string) func() bool {
		return func() bool {
			fake.mu.Lock()
			defer fake.mu.Unlock()
			return strings.Contains(fmt.Sprintf("%s %s", fake.lines, fake.docs), text)
		}
	}
	testkit.WaitFor(t, "a line about the engine", seen("answers 503"))
	for _, name := range []string{"first", "second"} {
		model.Store(&name)
		testkit.WaitFor(t, "its documents", seen("models/"+name))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
