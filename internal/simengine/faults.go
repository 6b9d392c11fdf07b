package simengine

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// The faults. "A few tokens" are three, or fewer if the answer is shorter.
const (
	// Refusals. They take no slot.
	FaultRefuse       = "refuse"         // the connection is closed without a byte
	FaultFull         = "full"           // 503
	FaultFull429      = "full_429"       // 429
	FaultFullInStream = "full_in_stream" // 200, and a first event that is an error with code 503; unstreamed: 503
	FaultError400     = "error400"       // 400, worded as engines do
	FaultError500     = "error500"       // 500, worded as engines do
	FaultHTMLError    = "html_error"     // 502 and an HTML page

	// Silence. Both hold a slot until the client leaves.
	FaultStallHead   = "stall_head"   // no byte
	FaultStallStream = "stall_stream" // a few tokens, or half of an unstreamed answer

	// Answers without their end.
	FaultCutAtChunk    = "cut_at_chunk"    // a few tokens, then closed between two chunks
	FaultCutInChunk    = "cut_in_chunk"    // a few tokens, then closed within a chunk
	FaultNoDone        = "no_done"         // a few tokens, then HTTP's proper end without the API's; unstreamed: as usual
	FaultErrorThenDone = "error_then_done" // a few tokens, an error event, [DONE] where the API has it; unstreamed: 500
	FaultErrorThenCut  = "error_then_cut"  // a few tokens, an error event, then closed between two chunks; unstreamed: as cut_at_chunk
	FaultShortBody     = "short_body"      // Content-Length is larger than the body, then closed
	FaultCutUnframed   = "cut_unframed"    // a few tokens, or half of an unstreamed answer, without a length and without chunks, then closed

	// Answers that HTTP forbids.
	FaultMalformedHead = "malformed_head" // the head is not HTTP
	FaultBothLengths   = "both_lengths"   // Content-Length and Transfer-Encoding, and the body hides a second answer
	FaultFlood1xx      = "flood_1xx"      // 1xx heads without end
	FaultEndlessLine   = "endless_line"   // one event, or one JSON string, without end

	// Proper answers that are hard on the client.
	FaultSlow      = "slow"       // ten times the time between tokens
	FaultPingFirst = "ping_first" // the head and a comment at once, then as usual
	FaultAfterEnd  = "after_end"  // an event and a comment behind the API's end; unstreamed: as usual
	FaultCloseIdle = "close_idle" // keep-alive, but the idle connection is closed at once
	FaultBigAnswer = "big_answer" // 50 MiB, as fast as they are read

	// FaultUnhealthy makes the health paths and the model list answer 503. Other requests are answered as usual, and
	// its model is ignored.
	FaultUnhealthy = "unhealthy"

	// Faults of the page /metrics. Other requests are answered as usual, and the model is ignored.
	FaultMetricsMissing = "metrics_missing" // 404
	FaultMetricsSlow    = "metrics_slow"    // not a byte until the client leaves
	FaultMetricsHuge    = "metrics_huge"    // 64 MiB
	FaultMetricsGarbage = "metrics_garbage" // 200, and bytes that are no metrics

	// Faults of the events of the cache. Requests are answered as usual, the model is ignored, and Count counts messages.
	FaultEventsLost    = "events_lost"    // not sent
	FaultEventsGarbage = "events_garbage" // bytes that are no events
	FaultEventsLying   = "events_lying"   // the removal of a thousand blocks that were never stored
)

// asideFaults are those that no inference request gets.
var asideFaults = []string{FaultUnhealthy, FaultMetricsMissing, FaultMetricsSlow, FaultMetricsHuge, FaultMetricsGarbage,
	FaultEventsLost, FaultEventsGarbage, FaultEventsLying}

// Faults returns the names of all faults, sorted.
func Faults() []string {
	names := []string{
		FaultRefuse, FaultFull, FaultFull429, FaultFullInStream, FaultError400, FaultError500, FaultHTMLError,
		FaultStallHead, FaultStallStream,
		FaultCutAtChunk, FaultCutInChunk, FaultNoDone, FaultErrorThenDone, FaultErrorThenCut, FaultShortBody, FaultCutUnframed,
		FaultMalformedHead, FaultBothLengths, FaultFlood1xx, FaultEndlessLine,
		FaultSlow, FaultPingFirst, FaultAfterEnd, FaultCloseIdle, FaultBigAnswer,
	}
	names = append(names, asideFaults...)
	slices.Sort(names)
	return names
}

// Fault is a way to misbehave.
type Fault struct {
	Model string `json:"model"` // "" = any model without a fault of its own
	Count int    `json:"count"` // number of requests; 0 = until cleared
	Fault string `json:"fault"` // one of FaultX
}

func (f Fault) check() error {
	if !slices.Contains(Faults(), f.Fault) {
		return badRequest("fault", fmt.Sprintf("fault: %q: must be one of %s", f.Fault, strings.Join(Faults(), ", ")))
	}
	if f.Count < 0 {
		return badRequest("count", fmt.Sprintf("count: %d: must be at least 0", f.Count))
	}
	return nil
}

// faultTable holds at most one fault for each model, and each of asideFaults.
type faultTable struct {
	mu    sync.Mutex // guards the fields below
	set   map[string]Fault
	aside map[string]Fault // by name: asideFaults
}

// take returns the fault of the next request for model, "" for none, and counts the request.
func (t *faultTable) take(model string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, ok := t.set[model]
	if !ok {
		f, ok = t.set[""]
	}
	if !ok {
		return ""
	}
	if f.Count == 1 {
		delete(t.set, f.Model)
	} else if f.Count > 1 {
		f.Count--
		t.set[f.Model] = f
	}
	return f.Fault
}

// takeUnhealthy is take for a health probe.
func (t *faultTable) takeUnhealthy() bool { return t.takeAside(FaultUnhealthy) == FaultUnhealthy }

// takeMetrics is take for the page of metrics.
func (t *faultTable) takeMetrics() string { return t.takeAside(asideFaults[1:5]...) }

// takeEvents is take for a message of events.
func (t *faultTable) takeEvents() string { return t.takeAside(asideFaults[5:]...) }

// takeAside returns the first of these faults that is in force; "" for none.
func (t *faultTable) takeAside(names ...string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		f, ok := t.aside[name]
		if !ok {
			continue
		}
		if f.Count == 1 {
			delete(t.aside, name)
		} else if f.Count > 1 {
			f.Count--
			t.aside[name] = f
		}
		return name
	}
	return ""
}

func (t *faultTable) put(f Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(asideFaults, f.Fault) {
		if t.aside == nil {
			t.aside = make(map[string]Fault)
		}
		t.aside[f.Fault] = f
		return
	}
	if t.set == nil {
		t.set = make(map[string]Fault)
	}
	t.set[f.Model] = f
}

func (t *faultTable) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set, t.aside = nil, nil
}

// list returns the faults in force, by model.
func (t *faultTable) list() []Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]Fault, 0, len(t.set)+1)
	for _, f := range t.set {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Fault) int { return strings.Compare(a.Model, b.Model) })
	for _, name := range asideFaults {
		if f, ok := t.aside[name]; ok {
			all = append(all, f)
		}
	}
	return all
}

// SetFault puts a fault in force, in place of any other for its model. It panics if the fault does not exist.
func (e *Engine) SetFault(f Fault) {
	if err := f.check(); err != nil {
		panic("simengine: " + err.Error())
	}
	e.faults.put(f)
}

// ClearFaults ends all faults. A request that has one already keeps it.
func (e *Engine) ClearFaults() { e.faults.clear() }

func (e *Engine) listFaults(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, marshal(e.faults.list()))
}

func (e *Engine) deleteFaults(w http.ResponseWriter, _ *http.Request) {
	e.ClearFaults()
	e.c.Logger.Info("faults cleared")
	w.WriteHeader(http.StatusNoContent)
}

func (e *Engine) postFault(w http.ResponseWriter, r *http.Request) {
	var f Fault
	d := json.NewDecoder(io.LimitReader(r.Body, 64<<10))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		writeError(w, badRequest("", `the body must be {"model","count","fault"}: `+err.Error()))
		return
	}
	if err := f.check(); err != nil {
		(&job{w: w, words: openAIWords}).refuse(err)
		return
	}
	e.faults.put(f)
	e.c.Logger.Info("fault set", "model", f.Model, "count", f.Count, "fault", f.Fault)
	w.WriteHeader(http.StatusNoContent)
}
