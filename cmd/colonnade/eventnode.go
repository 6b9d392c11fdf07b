package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"colonnade/analytics/journal"
	"colonnade/analytics/query"
)

const (
	eventPageTimeout = 40 * time.Second // a node ends an answer after 20 s
	eventPageBytes   = 256 << 10        // of one answer, which is kept in memory
	eventPageRetries = 10               // seconds for which a node with many readers is asked again
)

// eventNode reads the events of a node page by page, so that no answer waits for this program, and a lost one is asked for again.
type eventNode struct {
	registration
	reader  pageReader
	request query.PageRequest
	log     *eventLog
	events  *events
}

func (n *eventNode) lines(ctx context.Context) iter.Seq2[journal.Line, error] {
	return func(yield func(journal.Line, error) bool) {
		for more := !n.log.again; more; {
			body, end, err := n.page(ctx)
			if err != nil {
				yield(journal.Line{}, err)
				return
			}
			for line := range strings.Lines(body) {
				text := []byte(strings.TrimSuffix(line, "\n"))
				if len(text) > 0 && !yield(journal.Line{JSON: text, Time: journal.TimeOf(text)}, nil) {
					return
				}
			}
			more = end != query.EndComplete
		}
	}
}

// page reads the next page.
func (n *eventNode) page(ctx context.Context) (body, end string, err error) {
	response, text, err := n.ask(ctx)
	if err != nil {
		return "", "", err
	}
	name := response.Header.Get(query.HeaderNode)
	switch end = response.Trailer.Get(query.HeaderEnd); {
	case response.StatusCode == http.StatusNotFound && name != "":
		return "", "", errors.New(strings.TrimSpace(string(text)))
	case response.StatusCode == http.StatusNotFound:
		return "", "", errors.New("it has no page /debug/events: a node of an older version, or another program")
	case response.StatusCode != http.StatusOK:
		return "", "", fmt.Errorf("its page /debug/events has the status %d: %.200s", response.StatusCode, strings.TrimSpace(string(text)))
	case n.Node != "" && name != n.Node:
		return "", "", fmt.Errorf("node %.100q answers there; %s", name, addressHint(n.Admin))
	case end == "":
		return "", "", errors.New("its answer was cut")
	case strings.HasPrefix(end, "error: "):
		return "", "", fmt.Errorf("it cannot read its events: %.200s", strings.TrimPrefix(end, "error: "))
	}
	if n.log.again = !n.events.reads(n.log, response.Header.Get(query.HeaderProcess)); n.log.again {
		return "", query.EndComplete, nil
	}
	bad, _ := strconv.Atoi(response.Trailer.Get(query.HeaderBad))
	n.events.bad.Add(int64(max(bad, 0)))
	n.log.node = name
	n.request.After, n.request.Last = response.Trailer.Get(query.HeaderPosition), -1
	return string(text), end, nil
}

// reads reports whether a log is the one that reads the events of a node's process: the first one is. Nodes of older versions do not name
// their process.
func (e *events) reads(l *eventLog, process string) bool {
	if process == "" {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.readers[process] == nil {
		e.readers[process] = l
	}
	return e.readers[process] == l
}

// ask asks again while the node has too many readers.
func (n *eventNode) ask(ctx context.Context) (response *http.Response, text []byte, err error) {
	for range eventPageRetries {
		response, text, err = n.reader.fetch(ctx, n.Admin, "/debug/events?"+n.request.Query().Encode())
		if err != nil || response.StatusCode != http.StatusServiceUnavailable {
			break
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	return response, text, err
}
