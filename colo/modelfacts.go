package colo

import (
	"context"
	"slices"
	"sync"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/peer"
	"colonnade/openai"
)

const (
	factsValid    = 10 * time.Second       // for which what engines have said counts
	factsTimeout  = 400 * time.Millisecond // for asking them
	factsOfPool   = 16                     // engines of one pool that are asked
	factsAtMost   = 64                     // engines that are asked
	maxFactsBytes = 1 << 20                // of one engine's answer
)

// modelFacts is what the engines of the colo have said about their models. The zero value is ready.
type modelFacts struct {
	mu    sync.Mutex // guards the fields below; held while engines are asked, so that further questions wait for their answers
	asked time.Time
	known peer.ModelFacts // not changed once it was returned
}

// ModelFacts returns what engines of the colo say about the fleet's models, by name. It asks some engines of each pool, unless it has asked them a
// moment ago, and takes at most half a second.
func (s *Server) ModelFacts() peer.ModelFacts {
	f := &s.facts
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); f.asked.IsZero() || now.Sub(f.asked) > factsValid {
		f.known, f.asked = s.askFacts(), now
	}
	return f.known
}

func (s *Server) askFacts() peer.ModelFacts {
	t := s.table()
	asked := s.enginesForFacts(t)
	said := make([]map[string]openai.ModelFact, len(asked))
	ctx, cancel := context.WithTimeout(context.Background(), factsTimeout)
	defer cancel()
	var asking sync.WaitGroup
	for i, e := range asked {
		asking.Go(func() {
			answer, err := s.exchange(ctx, e, engineCall{method: "GET", path: openai.FactsPath(e.Engine), atMost: maxFactsBytes})
			if err == nil && answer.Status == 200 && !answer.NotAPI {
				said[i] = openai.ModelFacts(answer.Body)
			}
		})
	}
	asking.Wait()
	known := peer.ModelFacts{}
	for _, m := range t.Models() {
		for i, e := range asked {
			if e.Pool == m.Pool {
				of := said[i][e.NameOf(m)].And(said[i][""])
				fact := known[m.Name].And(of)
				fact.AddLongest(of.MaxModelLen)
				known[m.Name] = fact
			}
		}
		if s.hasMore(t, m.Pool, asked) {
			fact := known[m.Name]
			fact.AddLongest(0)
			known[m.Name] = fact
		}
	}
	return known
}

// hasMore reports whether a pool has an engine that was not asked.
func (s *Server) hasMore(t *fleet.Table, pool string, asked []*fleet.Endpoint) bool {
	return slices.ContainsFunc(t.Endpoints(s.config.Colo, pool), func(e *fleet.Endpoint) bool { return e.Serves() && !slices.Contains(asked, e) })
}

// enginesForFacts returns the first engines of each pool that has models.
func (s *Server) enginesForFacts(t *fleet.Table) (list []*fleet.Endpoint) {
	pools := map[string]bool{}
	for _, m := range t.Models() {
		if pools[m.Pool] {
			continue
		}
		pools[m.Pool] = true
		ofPool := 0
		for _, e := range t.Endpoints(s.config.Colo, m.Pool) {
			if e.Serves() && ofPool < factsOfPool && len(list) < factsAtMost {
				list = append(list, e)
				ofPool++
			}
		}
	}
	return list
}
