package admission_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/admission"
	"colonnade/balance"
	"colonnade/permits"
)

// byPrefix has the documents of a pool with two engines, which goes by the prompts that were sent to them.
var byPrefix = "key: pools/a\nbalance: {policy: prefix_affinity}\n---\n" + vllms("a", "one", "two")

// talk is the prompt of a conversation.
func talk(conversation, blocks int) *balance.Request {
	r := &balance.Request{Input: blocks << 8}
	random := rand.New(rand.NewPCG(uint64(conversation), 0))
	for range blocks {
		r.Blocks = append(r.Blocks, random.Uint64())
	}
	return r
}

// chosen sends a turn of a conversation, and returns the endpoint and the reason.
func (s *scenario) chosen(conversation int) string {
	s.Helper()
	g, err := acquire(s.pool("a"), context.Background(), permits.Request{Account: "acme", MaxExpected: -1, Balance: talk(conversation, 50)})
	if err != nil {
		s.Fatal(err)
	}
	defer g.Release()
	return g.Endpoint.ID + " " + g.Why().String()
}

const conversations = 20

// converse has all conversations begin, and returns what the home has learned then, as another server gets it.
func (s *scenario) converse() (l *admission.Learned, at [conversations]string) {
	s.put(byPrefix)
	for n := range conversations {
		at[n], _, _ = strings.Cut(s.chosen(n), " ")
	}
	return passOn(s.TB, s.Learned("a")), at
}

// The next home sends each conversation to the engine that has it in its cache, unless that is not the same engine any more.
func TestPrefixesMove(t *testing.T) {
	f := func(name string, prompted float64, happens func(s *scenario, next *sayer, adopt func()), stays bool) {
		t.Helper()
		var l *admission.Learned
		var at [conversations]string
		play(t, func(s *scenario) {
			old := s.listen("one")
			old.PrefixQueries, old.PrefixHits = value(5000), value(1)
			s.put(byPrefix)
			s.say(old, 2, func() {})
			l, at = s.converse()
		})
		play(t, func(s *scenario) {
			next := s.listen("one")
			next.PrefixQueries, next.PrefixHits = value(prompted), value(1)
			s.put(byPrefix)
			happens(s, next, func() {
				if a := s.Adopt("a", l, time.Second); a.Blocks < 50*conversations/2 || a.Engines == 0 {
					t.Errorf("%s: took over %+v", name, a)
				}
			})
			for n := range conversations {
				switch why := s.chosen(n); {
				case at[n] == "two" && why != "two prefix" || at[n] == "one" && stays && why != "one prefix":
					t.Errorf("%s: conversation %d, which was at %s, is at %s", name, n, at[n], why)
				case at[n] == "one" && !stays && !strings.HasSuffix(why, "none"):
					t.Errorf("%s: conversation %d is at %s, although its engine has lost it", name, n, why)
				}
			}
		})
	}
	f("a handover", 5000, func(s *scenario, _ *sayer, adopt func()) { adopt() }, true)
	f("figures of the same engine", 5000, func(s *scenario, next *sayer, adopt func()) {
		adopt()
		s.say(next, 2, func() { next.PrefixQueries = value(6000) })
	}, true)
	f("a restart before the handover", 100, func(s *scenario, next *sayer, adopt func()) {
		adopt()
		s.say(next, 2, func() {})
	}, false)
	f("a restart later", 5000, func(s *scenario, next *sayer, adopt func()) {
		adopt()
		s.say(next, 2, func() {})
		s.say(next, 2, func() { next.PrefixQueries = value(4999) })
	}, false)
	for _, when := range []string{"after its first check", "before its first check", "before the handover"} {
		f("an engine that is gone, "+when, 5000, func(s *scenario, _ *sayer, adopt func()) {
			if when == "after its first check" {
				synctest.Wait()
			}
			if s.setHealth("one", syscall.ECONNREFUSED); when == "before the handover" {
				time.Sleep(testInterval)
			}
			adopt()
			time.Sleep(4 * testInterval)
			s.setHealth("one", nil)
			time.Sleep(2 * testInterval)
		}, false)
	}
	f("an engine that its worker has started again", 5000, func(s *scenario, _ *sayer, adopt func()) {
		s.put(workerDocument("B", 0))
		time.Sleep(time.Minute)
		s.put(workerDocument("B", 1))
		adopt()
	}, false)
	f("a document that was gone", 5000, func(s *scenario, _ *sayer, adopt func()) {
		time.Sleep(time.Minute)
		s.remove("endpoints/ams/one")
		s.put(byPrefix)
		adopt()
	}, false)
}

// A server that says no bound gets what every version takes: the rest without prefixes.
func TestOldVersionsGetNoPrefixes(t *testing.T) {
	play(t, func(s *scenario) {
		l, _ := s.converse()
		text := l.Encode(0)
		if len(text) > admission.MinLearned || bytes.Contains(text, []byte("blocks")) {
			t.Errorf("%d bytes: %.200s", len(text), text)
		}
		if text = l.Encode(admission.MaxLearned); !bytes.Contains(text, []byte("blocks")) {
			t.Errorf("without prefixes: %.200s", text)
		}
	})
}

// However large the index is, what another server gets of it is bounded, and an equal part of each engine's is the newest.
func TestPrefixesFit(t *testing.T) {
	var l *admission.Learned
	play(t, func(s *scenario) {
		s.put(byPrefix)
		for n := range 4000 {
			s.chosen(n)
		}
		l = s.Learned("a")
		if text := l.Encode(admission.MaxLearned); len(text) > 3<<19 {
			t.Errorf("%d bytes", len(text))
		}
		l = passOn(t, l)
	})
	play(t, func(s *scenario) {
		s.put(byPrefix)
		s.Adopt("a", l, 0)
		if why := s.chosen(3999); !strings.HasSuffix(why, " prefix") {
			t.Errorf("the last conversation is at %s", why)
		}
		if why := s.chosen(0); !strings.HasSuffix(why, " prefix_none") {
			t.Errorf("the first conversation is at %s", why)
		}
	})
}
