package admission_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/admission"
	"colonnade/balance"
	"colonnade/discovery/engines/kvevents"
	"colonnade/permits"
)

// wantAdapterAt expects that a request for an adapter gets a slot of an endpoint, by its ID, for a reason.
func (s *scenario) wantAdapterAt(adapter, id string, why balance.Why, when string) {
	s.Helper()
	g, err := acquire(s.pool("a"), context.Background(), permits.Request{Account: "acme", MaxExpected: -1, Balance: &balance.Request{Adapter: adapter}})
	if err != nil {
		s.Fatal(err)
	}
	if g.Endpoint.ID != id || g.Why() != why {
		s.Errorf("%s: %s is sent to %s (%s), want %s (%s)", when, adapter, g.Endpoint.ID, g.Why(), id, why)
	}
	g.Release()
}

// The choice of the endpoint follows what documents, lists and metrics say of adapters, and forgets it when an engine has been out.
func TestPermitsKnowTheAdaptersOfEngines(t *testing.T) {
	play(t, func(s *scenario) {
		s.put("key: defaults\npool: {balance: {policy: adapter_affinity}}\n---\n" + endpoints("a", 4, "one", "two") + "adapters: [said-v1]\nload_adapters: true\n" +
			"---\nkey: models/said\npool: a\nadapter: said-v1\n---\nkey: models/listed\npool: a\nadapter: listed-v1\nupstream_name: by-another-name\n" +
			"---\nkey: models/used\npool: a\nadapter: used-v1\n---\nkey: models/sent\npool: a\nadapter: sent-v1\n")
		synctest.Wait()
		s.wantAdapterAt("said-v1", "two", balance.Adapter, "by its document")
		s.NoteModels("http://two:8000", []string{"base", "by-another-name"})
		s.wantAdapterAt("listed-v1", "two", balance.Adapter, "by its list")
		s.NoteAdapters("http://two:8000", []string{"used-v1"})
		s.wantAdapterAt("used-v1", "two", balance.Adapter, "by its metrics")
		s.wantAdapterAt("sent-v1", "one", balance.AdapterNew, "when no other adapter is at the endpoint")
		s.wantAdapterAt("sent-v1", "one", balance.Adapter, "when it was sent there before")
		s.setHealth("one", errors.New("refused"))
		time.Sleep(time.Minute)
		s.setHealth("one", nil)
		time.Sleep(time.Minute)
		s.wantAdapterAt("sent-v1", "one", balance.AdapterNew, "when the engine has been out")
		s.put("key: models/late\npool: a\nadapter: late-v1\n---\n" + endpoints("a", 4, "two") + "adapters: [late-v1]\nload_adapters: true\n")
		s.wantAdapterAt("late-v1", "two", balance.Adapter, "by a document that has changed")
	})
}

// An adapter that was sent to an engine is gone from its memory with its process, also if no health check has failed meanwhile. An emptied cache
// leaves it there, and so does what else a worker or metrics say.
func TestRestartForgetsAdapters(t *testing.T) {
	const documents = "key: endpoints/ams/one\nurl: http://one:8000\npool: a\nengine: vllm\nconcurrency: 8\nkv_events: tcp://one:5557\n" +
		"---\nkey: models/sent\npool: a\nadapter: sent-v1\n---\nkey: models/used\npool: a\nadapter: used-v1\n---\n"
	const byAdapter, byIndex = "key: pools/a\nbalance: {policy: adapter_affinity}\n---\n", "key: pools/a\nbalance: {policy: score}\n---\n"
	for name, c := range map[string]struct {
		policy  string
		happens func(s *scenario, p *publishers, e *sayer)
		kept    bool
	}{
		"worker": {policy: byAdapter, happens: func(s *scenario, _ *publishers, _ *sayer) { s.put(workerDocument("boot", 3)) }},
		"metrics": {policy: byAdapter, happens: func(s *scenario, _ *publishers, e *sayer) {
			s.say(e, 1, func() { e.PrefixQueries = value(100) })
		}},
		"events": {policy: byIndex, happens: func(_ *scenario, p *publishers, _ *sayer) {
			p.say("one:5557", kvevents.State{Connected: true, Events: 1, Restarts: 1})
		}},
		"emptied": {policy: byIndex, kept: true, happens: func(_ *scenario, p *publishers, _ *sayer) {
			p.say("one:5557", kvevents.State{Connected: true, Events: 1, Clears: 1})
		}},
		"other worker": {policy: byAdapter, kept: true, happens: func(s *scenario, _ *publishers, _ *sayer) { s.put(workerDocument("other", 3)) }},
		"more prompts": {policy: byAdapter, kept: true, happens: func(s *scenario, _ *publishers, e *sayer) {
			s.say(e, 1, func() { e.PrefixQueries = value(2000) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			playEvents(t, func(s *scenario, p *publishers) {
				e := s.listen("one")
				e.Running, e.PrefixQueries, e.PrefixHits, e.Adapters = value(0), value(1000), value(0), []string{"used-v1"}
				s.put(c.policy + documents + workerDocument("boot", 2))
				time.Sleep(2 * testInterval)
				s.send(&balance.Request{Adapter: "sent-v1"})
				c.happens(s, p, e)
				if c.policy != byAdapter {
					s.put(byAdapter) // events are read only for an index
				}
				want := balance.AdapterNew
				if c.kept {
					want = balance.Adapter
				}
				s.wantAdapterAt("sent-v1", "one", want, "afterwards")
				s.wantAdapterAt("used-v1", "one", balance.Adapter, "by its metrics")
			})
		})
	}
}

// Whatever engines say, in any order, requests avoid the same engines as when all that is known is put together at once.
func TestAdaptersArePublishedAsTheyChange(t *testing.T) {
	play(t, func(s *scenario) {
		urls, all := []string{"http://one:8000", "http://two:8000", "http://three:8000"}, []string{"base", "v0", "v1", "v2", "alias", "v3"}
		s.put(endpoints("a", 4, "one", "two") + "---\n" + endpoints("a", 4, "three") + "adapters: [v0]\nload_adapters: true\n---\nkey: models/base\npool: a\n")
		for i := range 4 {
			s.put(fmt.Sprintf("key: models/m%d\npool: a\nadapter: v%d\nupstream_name: %s\n", i, i, [...]string{"m0", "m1", "alias", "m3"}[i]))
		}
		synctest.Wait()
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 2000 {
			url := urls[random.IntN(len(urls))]
			said := slices.DeleteFunc(slices.Clone(all), func(string) bool { return random.IntN(3) > 0 })
			switch random.IntN(5) {
			case 0, 1:
				s.NoteModels(url, said)
			case 2, 3:
				s.NoteAdapters(url, said)
			default:
				s.pool("a").Lacks(s.endpoint("one"), admission.Lack{Model: "m1"}, "404")
			}
			time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
			got := s.pool("a").Stats().Lacks
			s.pool("a").PublishLacks()
			if want := s.pool("a").Stats().Lacks; !reflect.DeepEqual(got, want) {
				t.Fatalf("after %d events, %s said %v: %v, want %v", i, url, said, got, want)
			}
		}
	})
}
