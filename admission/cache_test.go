package admission_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/balance"
	"colonnade/discovery/engines/kvevents"
	"colonnade/homes"
	"colonnade/permits"
)

// publishers stand for the events of engines, which the test writes.
type publishers struct {
	mu        sync.Mutex // guards the fields below
	followers map[string]func(kvevents.State)
	began     int
}

// follow is a [admission.FollowEvents].
func (p *publishers) follow(ctx context.Context, addresses []string, note func(kvevents.State)) {
	name := strings.Join(addresses, " ")
	p.mu.Lock()
	p.followers[name] = note
	p.began++
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.followers, name)
}

// say makes a publisher say something, which the follower notes.
func (p *publishers) say(address string, s kvevents.State) {
	synctest.Wait()
	p.mu.Lock()
	note := p.followers[address]
	p.mu.Unlock()
	note(s)
}

func (p *publishers) followed() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for address := range p.followers {
		all = append(all, address)
	}
	slices.Sort(all)
	return all
}

// playEvents plays a scenario whose engines have publishers.
func playEvents(t *testing.T, f func(s *scenario, p *publishers)) {
	t.Helper()
	playLogged(t, slog.New(slog.DiscardHandler), f)
}

func playLogged(t *testing.T, logger *slog.Logger, f func(s *scenario, p *publishers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &publishers{followers: map[string]func(kvevents.State){}}
		f(newFollowingScenario(t, logger, p.follow), p)
	})
}

// byIndex is a pool that goes by the index, with one engine, which has the events of tcp://one:5557.
const byIndex = "key: pools/a\nbalance: {policy: prefix_affinity}\n---\nkey: endpoints/ams/one\nurl: http://one:8000\npool: a\nengine: vllm\nconcurrency: 8\nkv_events: "

func wantFollowed(t *testing.T, p *publishers, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := p.followed(); !slices.Equal(got, want) {
		t.Errorf("%s: followed are %v, want %v", when, got, want)
	}
}

// The events of an engine are read as long as its document names them, its pool goes by an index, and this server may grant its slots.
func TestEventsAreReadWhereTheyAreOfUse(t *testing.T) {
	playEvents(t, func(s *scenario, p *publishers) {
		s.put(byIndex + "tcp://one:5557")
		wantFollowed(t, p, "at first", "one:5557")
		s.put("key: endpoints/ams/two\nurl: http://two:8000\npool: a")
		wantFollowed(t, p, "beside an engine without events", "one:5557")
		if p.began != 1 {
			t.Errorf("the follower has begun %d times", p.began)
		}
		s.put(byIndex + "tcp://one:5557-5558")
		wantFollowed(t, p, "with two ranks", "one:5557 one:5558")
		s.put("key: pools/a\nbalance: {policy: least_loaded}")
		wantFollowed(t, p, "with another policy")
		s.put("key: pools/a\nbalance: {policy: prefix_affinity, prefix: {by: ring}}")
		wantFollowed(t, p, "by the ring")
		s.put("key: pools/a\nbalance: {policy: score}")
		wantFollowed(t, p, "by score", "one:5557 one:5558")
		s.SetGrants(&homes.Grants{})
		wantFollowed(t, p, "without the grant")
		s.SetGrants(nil)
		wantFollowed(t, p, "with the grant", "one:5557 one:5558")
		s.put(byIndex + "tcp://one:5557")
		s.remove("endpoints/ams/one")
		wantFollowed(t, p, "without the endpoint")
		s.put(byIndex + "tcp://one:5557")
		wantFollowed(t, p, "with the endpoint again", "one:5557")
		s.Drain()
		wantFollowed(t, p, "while the server drains")
	})
}

// prompt makes one of the requests that the index goes by, of so many KiB.
func prompt(name string, kib int) *balance.Request {
	var chain balance.Chain
	chain.Reset("m")
	chain.Write(bytes.Repeat([]byte(fmt.Sprintf("%-64s", name)), kib*16))
	return &balance.Request{Input: kib << 10, Blocks: chain.Blocks()}
}

// send has the pool choose an endpoint for a prompt, and returns it.
func (s *scenario) send(r *balance.Request) (endpoint, why string) {
	s.Helper()
	g, err := acquire(s.pool("a"), context.Background(), permits.Request{Account: "acme", MaxExpected: -1, Balance: r})
	if err != nil {
		s.Fatal(err)
	}
	defer g.Release()
	return g.Endpoint.ID, g.Why().String()
}

func (s *scenario) indexed() int64 {
	s.Helper()
	return s.pool("a").Stats().Endpoints[0].Indexed
}

func (s *scenario) cache() permits.CacheStats {
	s.Helper()
	if c := s.pool("a").Stats().Endpoints[0].Cache; c != nil {
		return *c
	}
	return permits.CacheStats{}
}

func (s *scenario) size() int64 {
	s.Helper()
	if size := s.cache().SizeBytes; size != nil {
		return *size
	}
	return 0
}

func (s *scenario) wantSize(want int64, when string) {
	s.Helper()
	if got := s.size(); got != want {
		s.Errorf("%s: the cache has room for %d bytes, want %d", when, got, want)
	}
}

// The index takes as much for cached as the engine has room for: what is resident while it evicts, and no more than its metrics say.
func TestIndexHasTheSizeOfTheCache(t *testing.T) {
	playEvents(t, func(s *scenario, p *publishers) {
		e := s.listen("one")
		e.Running = value(0)
		s.put(byIndex + "tcp://one:5557")
		s.wantSize(0, "at first")
		for n := range 8 {
			s.send(prompt(fmt.Sprint(n), 32))
		}
		if n := s.indexed(); n < 200<<10 {
			t.Fatalf("%d bytes are indexed", n)
		}
		p.say("one:5557", kvevents.State{Known: true, Tokens: 4 << 10})
		s.wantSize(0, "while the engine has not evicted anything")
		p.say("one:5557", kvevents.State{Known: true, Evicting: true, Tokens: 32 << 10})
		s.wantSize(128<<10, "while it evicts")
		if n := s.indexed(); n > 128<<10 || n < 64<<10 {
			t.Errorf("%d bytes are indexed", n)
		}
		p.say("one:5557", kvevents.State{Known: true, Evicting: true, Tokens: 32<<10 + 100})
		s.wantSize(128<<10, "after a small change")
		s.say(e, 1, func() { e.CacheTokens = value(16 << 10) })
		s.wantSize(64<<10, "with metrics that say less")
		if n := s.indexed(); n > 64<<10 {
			t.Errorf("%d bytes are indexed", n)
		}
		p.say("one:5557", kvevents.State{Known: true, Evicting: true, Tokens: 8 << 10})
		s.wantSize(32<<10, "with events that say less")
		p.say("one:5557", kvevents.State{Evicting: true, Tokens: 8 << 10})
		s.wantSize(64<<10, "with a count that does not hold")
		for range 100 {
			s.pool("a").ReportPrompt(16<<10, 8<<10)
		}
		s.say(e, 1, func() {})
		if size := s.size(); size < 32<<10 || size > 36<<10 {
			t.Errorf("with two bytes to a token, the cache has room for %d bytes", size)
		}
		s.put("key: endpoints/ams/one\nurl: http://one:8000\npool: a\nengine: vllm\nconcurrency: 8\nmetrics: {read: never}")
		s.say(e, 1, func() {})
		s.wantSize(0, "without metrics and events")
	})
}

// The size of a cache is bounded, whatever its engine says.
func TestSizeOfTheCacheIsBounded(t *testing.T) {
	playEvents(t, func(s *scenario, p *publishers) {
		e := s.listen("one")
		e.Running = value(0)
		s.put(byIndex + "tcp://one:5557")
		s.say(e, 1, func() { e.CacheTokens = value(1e300) })
		p.say("one:5557", kvevents.State{Known: true, Evicting: true, Tokens: 1 << 62})
		s.wantSize(4<<40, "with figures that cannot be")
		p.say("one:5557", kvevents.State{Known: true, Evicting: true})
		s.wantSize(4, "with an empty cache that evicts")
		s.pool("a").ReportPrompt(1<<40, 1)
		s.pool("a").ReportPrompt(-1, -1)
		p.say("one:5557", kvevents.State{Known: true, Evicting: true, Tokens: 10})
		s.wantSize(640, "with a prompt that cannot be")
	})
}

// The engine with most of a prompt gets it, until its cache is lost: its events say so, its metrics have begun anew, its worker has started
// it again, or nothing listens there any more.
func TestLostCacheIsForgotten(t *testing.T) {
	for name, lose := range map[string]func(s *scenario, p *publishers, e *sayer){
		"events": func(_ *scenario, p *publishers, _ *sayer) {
			p.say("one:5557", kvevents.State{Connected: true, Clears: 1})
		},
		"metrics": func(s *scenario, _ *publishers, e *sayer) {
			s.say(e, 1, func() { e.PrefixQueries, e.PrefixHits = value(100), value(90) })
		},
		"worker": func(s *scenario, _ *publishers, _ *sayer) { s.put(workerDocument("boot", 3)) },
		"refused": func(s *scenario, _ *publishers, _ *sayer) {
			s.setHealth("one", fmt.Errorf("cannot connect: %w", syscall.ECONNREFUSED))
			time.Sleep(2 * testInterval)
			s.setHealth("one", nil)
			time.Sleep(2 * testInterval)
		},
	} {
		t.Run(name, func(t *testing.T) {
			playEvents(t, func(s *scenario, p *publishers) {
				e := s.listen("one")
				e.Running, e.PrefixQueries, e.PrefixHits = value(0), value(1000), value(500)
				s.put(byIndex + "tcp://one:5557\n---\n" + workerDocument("boot", 2))
				time.Sleep(2 * testInterval)
				synctest.Wait()
				s.send(prompt("x", 8))
				if _, why := s.send(prompt("x", 8)); why != "prefix" {
					t.Fatalf("chosen by %s", why)
				}
				p.say("one:5557", kvevents.State{Connected: true, Known: true, Events: 5})
				s.say(e, 2, func() { e.PrefixQueries, e.PrefixHits = value(2000), value(1000) })
				if s.indexed() == 0 || s.cache().Losses != 0 {
					t.Fatalf("forgotten without a reason: %+v", s.cache())
				}
				lose(s, p, e)
				synctest.Wait()
				if n := s.indexed(); n != 0 || s.cache().Losses != 1 {
					t.Errorf("%d bytes are indexed, %+v", n, s.cache())
				}
				if _, why := s.send(prompt("x", 8)); why != "prefix_none" {
					t.Errorf("chosen by %s", why)
				}
			})
		})
	}
}

// A process that is known to be new shows in its first event as well, which comes after its first prompt. That prompt is not forgotten; one more
// restart, or an emptied cache, is.
func TestNewProcessIsForgottenOnce(t *testing.T) {
	playEvents(t, func(s *scenario, p *publishers) {
		s.put(byIndex + "tcp://one:5557\n---\n" + workerDocument("boot", 2))
		time.Sleep(2 * testInterval)
		said := kvevents.State{Connected: true, Known: true, Events: 5}
		p.say("one:5557", said)
		want := func(losses uint64, when string) {
			t.Helper()
			synctest.Wait()
			if n := s.cache().Losses; n != losses {
				t.Errorf("%s, %d losses, want %d", when, n, losses)
			}
		}
		s.put(workerDocument("boot", 3))
		want(1, "started again by its worker")
		said.Restarts, said.Events = 1, 6
		p.say("one:5557", said)
		want(1, "with the first event of that process")
		said.Restarts, said.Events = 2, 7
		p.say("one:5557", said)
		want(2, "restarted without a word")
		s.put(workerDocument("boot", 4))
		want(3, "started again by its worker")
		said.Clears, said.Events = 1, 8
		p.say("one:5557", said)
		want(4, "emptied")
		said.Restarts, said.Events = 3, 9
		p.say("one:5557", said)
		want(5, "restarted after other events")
	})
}

func workerDocument(boot string, restarts int) string {
	return fmt.Sprintf("key: workers/w\ncolo: ams\nboot: %s\nengine: {endpoint: one, url: 'http://one:8000', state: serving, restarts: %d}\n", boot, restarts)
}

// Neither another process of the worker nor a health check that fails in another way is the end of an engine.
func TestCacheIsKeptWithoutAReason(t *testing.T) {
	playEvents(t, func(s *scenario, _ *publishers) {
		s.put(byIndex + "tcp://one:5557\n---\n" + workerDocument("boot", 2))
		time.Sleep(2 * testInterval)
		s.send(prompt("x", 8))
		s.put(workerDocument("other", 3))
		for _, err := range []error{errors.New("health path answered 500"), syscall.ECONNRESET, nil} {
			s.setHealth("one", err)
			time.Sleep(4 * testInterval)
		}
		if s.indexed() == 0 || s.cache().Losses != 0 {
			t.Errorf("%d bytes are indexed, %+v", s.indexed(), s.cache())
		}
	})
}

// The log says that events cannot be read, and that they are again, at most once a minute for each engine.
func TestUnreadEventsAreLogged(t *testing.T) {
	var out bytes.Buffer
	playLogged(t, slog.New(slog.NewTextHandler(&out, nil)), func(s *scenario, p *publishers) {
		lines := func(text string) int {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			s.WhileApplying(func() {}) // no line is being written
			return strings.Count(out.String(), text)
		}
		const gone, back = "cannot read the events of an engine's cache", "the events of an engine's cache are read again"
		s.put(byIndex + "tcp://one:5557")
		if lines(gone)+lines(back) > 0 {
			t.Errorf("before anything is known:\n%s", &out)
		}
		refused := kvevents.State{Error: "connection refused"}
		p.say("one:5557", refused)
		if lines(gone) != 1 || !strings.Contains(out.String(), `endpoint=one pool=a kv_events=tcp://one:5557 error="connection refused"`) {
			t.Errorf("once it is gone:\n%s", &out)
		}
		if c := s.cache(); c.Events == nil || c.Events.Connected || c.Events.Error != "connection refused" {
			t.Errorf("the state is %+v", c.Events)
		}
		for range 100 {
			p.say("one:5557", kvevents.State{Connected: true})
			p.say("one:5557", refused)
		}
		if lines(gone) != 1 || lines(back) != 0 {
			t.Errorf("while it comes and goes:\n%s", &out)
		}
		p.say("one:5557", kvevents.State{Connected: true})
		time.Sleep(time.Minute)
		if lines(gone) != 1 || lines(back) != 1 {
			t.Errorf("once it is back:\n%s", &out)
		}
	})
}

// An engine that moves to another pool brings the size of its cache, and what a follower says that has been replaced does not count.
func TestSizeOfTheCacheMoves(t *testing.T) {
	playEvents(t, func(s *scenario, p *publishers) {
		s.put(byIndex + "tcp://one:5557")
		said := kvevents.State{Known: true, Evicting: true, Tokens: 1 << 10}
		p.say("one:5557", said)
		s.wantSize(4<<10, "at first")
		moved := "key: pools/b\nbalance: {policy: prefix_affinity}\n---\n" + strings.Replace(byIndex, "pool: a", "pool: b", 1)
		s.put(moved + "tcp://one:5557")
		for n := range 4 {
			g, err := acquire(s.pool("b"), context.Background(), permits.Request{Account: "acme", MaxExpected: -1, Balance: prompt(fmt.Sprint(n), 2)})
			if err != nil {
				t.Fatal(err)
			}
			g.Release()
		}
		if e := s.pool("b").Stats().Endpoints[0]; e.Cache.SizeBytes == nil || *e.Cache.SizeBytes != 4<<10 || e.Indexed == 0 || e.Indexed > 4<<10 {
			t.Errorf("in the other pool: %+v", e)
		}
		p.mu.Lock()
		old := p.followers["one:5557"]
		p.mu.Unlock()
		s.put(byIndex + "tcp://one:5558")
		synctest.Wait()
		s.wantSize(0, "with another publisher")
		old(said)
		s.wantSize(0, "after words of the publisher before")
	})
}

// An engine that was never up has lost nothing.
func TestCacheOfNewEngineIsNotLost(t *testing.T) {
	playEvents(t, func(s *scenario, _ *publishers) {
		s.setHealth("one", fmt.Errorf("cannot connect: %w", syscall.ECONNREFUSED))
		s.put(byIndex + "tcp://one:5557")
		time.Sleep(testInterval)
		s.setHealth("one", nil)
		time.Sleep(4 * testInterval)
		if c := s.cache(); c.Losses != 0 {
			t.Errorf("%+v", c)
		}
	})
}
