package entry

import (
	"context"
	"sync"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/peer"
)

const (
	factsEvery  = 10 * time.Second       // colos are asked at most
	factsWithin = 500 * time.Millisecond // and a client waits for them
)

// modelFacts is what the engines of all colos say about the models. The zero value knows nothing.
type modelFacts struct {
	mu     sync.Mutex // guards the fields below
	asking bool
	asked  time.Time
	byColo map[string]peer.ModelFacts // not changed once it was stored
}

// modelFacts returns what engines say about models, by name. If that is old, it asks a server of each colo; other clients get what is known meanwhile.
// A colo that does not answer has said what it said last.
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
		for name, fact := range f.byColo[colo.Name] {
			all[name] = all[name].And(fact)
		}
	}
	return all
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
		f.byColo = map[string]peer.ModelFacts{}
		for i, colo := range t.Colos() {
			if i < len(answers) && answers[i] != nil {
				f.byColo[colo.Name] = answers[i]
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
