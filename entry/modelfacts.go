package entry

import (
	"context"
	"sync"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/peer"
	"colonnade/openai"
)

const (
	factsKept   = time.Minute            // of a colo that does not answer
	factsEvery  = 10 * time.Second       // colos are asked at most
	factsWithin = 500 * time.Millisecond // and a client waits for them
)

// modelFacts is what the engines of all colos say about the models. The zero value knows nothing.
type modelFacts struct {
	mu     sync.Mutex // guards the fields below
	asking bool
	asked  time.Time
	byColo map[string]coloFacts // not changed once it was stored

	wanted chan struct{} // of one value: the facts are old, and a prompt was to be checked by them
}

// coloFacts is what a colo has said, and when.
type coloFacts struct {
	peer.ModelFacts
	at time.Time
}

// modelFacts returns what engines say about models, by name. If that is old, it asks a server of each colo; other clients get what is known meanwhile.
// A colo that does not answer has said what it said last, for a minute.
func (e *Entry) modelFacts(t *fleet.Table) peer.ModelFacts {
	f := &e.facts
	f.mu.Lock()
	begin := !f.asking && (f.asked.IsZero() || time.Since(f.asked) >= factsEvery)
	f.asking = f.asking || begin
	f.mu.Unlock()
	if begin {
		e.renewFacts(t)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	all := peer.ModelFacts{}
	for _, colo := range t.Colos() {
		said := f.byColo[colo.Name]
		if time.Since(said.at) > factsKept {
			continue
		}
		for name, fact := range said.ModelFacts {
			all[name] = all[name].And(fact)
		}
	}
	return all
}

// runFacts renews the facts as prompts are checked by them, which wait for no colo.
func (e *Entry) runFacts(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.facts.wanted:
			e.modelFacts(e.config.Table())
		}
	}
}

// contextLength returns the longest context of a model that engines have stated: 0 unless all that serve it in any colo have, within the last minute.
func (e *Entry) contextLength(t *fleet.Table, model string) int {
	f := &e.facts
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.asked) >= factsEvery {
		select {
		case f.wanted <- struct{}{}:
		default:
		}
	}
	var all openai.ModelFact
	for _, colo := range t.Colos() {
		said := f.byColo[colo.Name]
		fact := said.ModelFacts[model]
		switch old := time.Since(said.at) > factsKept; {
		case old, fact.Longest == 0 && fact.MaxModelLen > 0: // the latter: a server of an older version
			return 0
		case fact.Longest != 0:
			all.AddLongest(fact.Longest)
		}
	}
	return max(all.Longest, 0)
}

// renewFacts asks for facts, and stores them.
func (e *Entry) renewFacts(t *fleet.Table) {
	f := &e.facts
	var answers []peer.ModelFacts // nil after a panic
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asking, f.asked = false, time.Now()
		before := f.byColo
		f.byColo = map[string]coloFacts{}
		for i, colo := range t.Colos() {
			if i < len(answers) && answers[i] != nil {
				f.byColo[colo.Name] = coloFacts{answers[i], time.Now()}
			} else {
				f.byColo[colo.Name] = before[colo.Name]
			}
		}
	}()
	answers = e.askFacts(t)
}

// askFacts asks one server of each colo, and returns their answers in the order of the colos; nil for one that has not answered.
func (e *Entry) askFacts(t *fleet.Table) []peer.ModelFacts {
	answers := make([]peer.ModelFacts, len(t.Colos()))
	ctx, cancel := context.WithTimeout(context.Background(), factsWithin) // for later clients, too
	defer cancel()
	var asking sync.WaitGroup
	for i, colo := range t.Colos() {
		for _, s := range t.Servers(colo.Name) {
			if local := e.config.LocalModelFacts; local != nil && e.local(s) != nil {
				answers[i] = local()
			} else if !e.sender.Watcher.IsSilent(peerOf(s)) {
				asking.Go(func() { answers[i], _ = e.sender.Client.ModelFacts(ctx, peerOf(s)) })
			} else {
				continue
			}
			break
		}
	}
	asking.Wait()
	return answers
}
