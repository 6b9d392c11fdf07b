package colo

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"colonnade/fleet"
	"colonnade/openai"
)

const (
	listValid   = time.Second // for which a list of models answers for its engine
	listTimeout = time.Second // at most; a request waits for it
	maxLists    = 4096        // engines
)

// evidence is what the list of models of an engine tells about a model.
type evidence uint8

const (
	noEvidence evidence = iota // the engine has no list, or it comes too late
	beingRead                  // another request reads the list
	listed
	notListed
)

// modelLists are the lists of models that were read because an engine did not serve a request. They bound how often an engine is asked: what
// clients send may make it answer so as often as they like. The zero value is ready.
type modelLists struct {
	mu    sync.Mutex // guards the field below
	byURL map[string]*modelList
}

// modelList is the list of one engine.
type modelList struct {
	reading bool
	read    time.Time
	names   []string
	ok      bool // it was read
}

// begin returns the list of the engine at url if it is valid or being read; else the caller reads it, and calls end.
func (l *modelLists) begin(url string, now time.Time) (known modelList, valid bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.byURL[url]
	if list == nil {
		if l.byURL == nil || len(l.byURL) >= maxLists {
			l.byURL = map[string]*modelList{}
		}
		list = &modelList{}
		l.byURL[url] = list
	}
	if list.reading || !list.read.IsZero() && now.Sub(list.read) < listValid {
		return *list, true
	}
	list.reading = true
	return modelList{}, false
}

// end notes the list that the caller has read.
func (l *modelLists) end(url string, list modelList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byURL[url] = &list
}

// has reports whether the list has a model, or an adapter in SGLang's form base:adapter.
func (l *modelList) has(name string) bool {
	_, adapter, _ := strings.Cut(name, ":")
	return slices.ContainsFunc(l.names, func(n string) bool { return n != "" && (n == name || n == adapter) })
}

// listEvidence returns what the list of models of the engine tells about the request's model. It reads the list if that is not known, once at a
// time.
func (c *call) listEvidence() evidence {
	s, e := c.server, c.grant.Endpoint
	list, valid := s.modelLists.begin(e.URL, time.Now())
	if !valid {
		defer func() { s.modelLists.end(e.URL, list) }() // also after a panic
		if list.names, list.ok = s.readListNow(c.Context, e); list.ok || c.Context.Err() == nil {
			list.read = time.Now() // a client that leaves must not take the proof away
		}
	}
	switch {
	case list.reading:
		return beingRead
	case !list.ok:
		return noEvidence
	case list.has(e.NameOf(c.model)), list.has(c.model.Adapter):
		return listed
	}
	return notListed
}

// readListNow reads the list of models of an engine for a request that waits for it.
func (s *Server) readListNow(ctx context.Context, e *fleet.Endpoint) (names []string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, min(listTimeout, e.Health.Timeout.Std()))
	defer cancel()
	names, ok = s.askModels(ctx, e)
	if ok {
		s.pools.NoteModels(e.URL, names)
	}
	return names, ok
}

// modelLacks reports whether the engine lacks the request's model, and whether that is proven, after it has said so in an answer with an
// error. Its list of models decides: a list that has the model shows that the error is about the request. Without a list only words count
// that are no echo of what the client wrote.
func (c *call) modelLacks(said openai.Lack) (lacks, proven bool) {
	switch c.listEvidence() {
	case listed:
		return false, false
	case notListed:
		return true, true
	case beingRead:
		return said == openai.LacksModel, false // the request that reads the list decides
	}
	return said == openai.LacksModel, said == openai.LacksModel
}
