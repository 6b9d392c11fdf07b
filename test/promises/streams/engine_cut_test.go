package streams_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// streamAPIs are the APIs whose streams mark their end.
var streamAPIs = []struct{ name, path, body string }{
	{"chat", "/v1/chat/completions", `{"model":"demo-chat","stream":true,"max_tokens":8,"messages":[{"role":"user","content":"hello"}]}`},
	{"completions", "/v1/completions", `{"model":"demo-chat","stream":true,"max_tokens":8,"prompt":"hello"}`},
	{"responses", "/v1/responses", `{"model":"demo-chat","stream":true,"max_output_tokens":8,"input":"hello"}`},
}

// streamEvent is one event of a stream of any of these APIs.
type streamEvent struct {
	name string
	data string

	Type     string `json:"type"`
	Sequence int    `json:"sequence_number"`
	Delta    string `json:"delta"`
	Code     string `json:"code"`
	Choices  []struct {
		Text  string `json:"text"`
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
	} `json:"choices"`
	Error json.RawMessage `json:"error"` // with other types in an engine's own errors
}

// readEvents splits a stream into its events, each of which must be complete.
func readEvents(t testing.TB, stream string) []streamEvent {
	t.Helper()
	var events []streamEvent
	if stream != "" && !strings.HasSuffix(stream, "\n\n") {
		t.Errorf("the stream ends inside an event: …%.200q", stream[max(0, len(stream)-200):])
	}
	for text := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		var e streamEvent
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = name
			} else if data, ok := strings.CutPrefix(line, "data: "); ok {
				e.data += data
			}
		}
		if e.data != "[DONE]" {
			if err := json.Unmarshal([]byte(e.data), &e); err != nil {
				t.Errorf("event %.200q: %v", text, err)
			}
		}
		events = append(events, e)
	}
	return events
}

// textOf returns the generated text in the events.
func textOf(events []streamEvent) string {
	var text strings.Builder
	for _, e := range events {
		text.WriteString(e.Delta)
		for _, c := range e.Choices {
			text.WriteString(c.Text + c.Delta.Content)
		}
	}
	return text.String()
}

// apiError returns the error object of an event.
func (e streamEvent) apiError(t testing.TB) (o wiretest.APIError) {
	t.Helper()
	if err := json.Unmarshal(e.Error, &o); err != nil {
		t.Errorf("event %.200q has no error object: %v", e.data, err)
	}
	return o
}

// expectErrorEvent expects that the last event is the API's error event.
func expectErrorEvent(t testing.TB, api string, events []streamEvent, number int, code string) {
	t.Helper()
	last := events[len(events)-1]
	if e := last.apiError(t); e.Number != number || e.Code != code || e.Type != "server_error" || e.RequestID == "" {
		t.Errorf("last event %q: want error %d %s", last.data, number, code)
	}
	if api != "responses" {
		return
	}
	next := events[len(events)-2].Sequence + 1
	if last.name != "error" || last.Type != "error" || last.Code != code || last.Sequence != next {
		t.Errorf("last event %q %q: want an event error with code %s and number %d", last.name, last.data, code, next)
	}
}

// expectCut expects that a stream ended by the end of its connection.
func expectCut(t testing.TB, w *wiretest.Conn, a wiretest.Response) {
	t.Helper()
	if a.Status != 200 || !errors.Is(a.Err, io.ErrUnexpectedEOF) && !errors.Is(a.Err, io.EOF) {
		t.Errorf("status %d, ended with %v: want 200 and a connection that is closed without the last chunk", a.Status, a.Err)
	}
	if how := w.End(); how != "closed" {
		t.Errorf("the connection ended: %s", how)
	}
}

// fewTokens is the text that the engine generates before a fault in mid-stream.
const fewTokens = "every request takes"

// When an engine dies in mid-stream, the client gets what was generated, an error event, and the end of the connection but not
// of the stream. The request is not retried.
func TestEngineDiesMidStream(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Engines: 2}, "")
	f.Watch(8)
	for _, api := range streamAPIs {
		for _, fault := range []string{simengine.FaultCutAtChunk, simengine.FaultCutInChunk, simengine.FaultNoDone} {
			t.Run(api.name+"/"+fault, func(t *testing.T) {
				f.InjectFault(fault, 0)
				before := f.EngineRequests()
				w := wiretest.Dial(t, f.Entry.Address)
				w.Post(api.path, api.body)
				a := w.Read()
				expectCut(t, w, a)
				events := readEvents(t, a.Body)
				if got := textOf(events); got != fewTokens {
					t.Errorf("delivered %q, want %q", got, fewTokens)
				}
				expectErrorEvent(t, api.name, events, 50001, "engine_error")
				if n := f.EngineRequests() - before; n != 1 {
					t.Errorf("sent to engines %d times, want once", n)
				}
			})
		}
	}
	f.ClearFaults()
}

// An error event of the engine in mid-stream is relayed unchanged, with the end that the engine gave the stream.
func TestEngineErrorEventMidStream(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Engines: 2}, "")
	f.Watch(8)
	for _, api := range streamAPIs {
		sendAndRead := func(t *testing.T, fault string) (*wiretest.Conn, wiretest.Response, []streamEvent) {
			f.InjectFault(fault, 0)
			before := f.EngineRequests()
			w := wiretest.Dial(t, f.Entry.Address)
			w.Post(api.path, api.body)
			a := w.Read()
			events := readEvents(t, a.Body)
			if got := textOf(events); got != fewTokens {
				t.Errorf("delivered %q, want %q", got, fewTokens)
			}
			if n := strings.Count(a.Body, "The engine failed on purpose."); n != 1 || strings.Contains(a.Body, "engine_error") {
				t.Errorf("%d events have the engine's error, want one and no other error: %q", n, a.Body)
			}
			if n := f.EngineRequests() - before; n != 1 {
				t.Errorf("sent to engines %d times, want once", n)
			}
			return w, a, events
		}
		t.Run(api.name+"/"+simengine.FaultErrorThenDone, func(t *testing.T) {
			_, a, events := sendAndRead(t, simengine.FaultErrorThenDone)
			if a.Err != nil {
				t.Errorf("the stream ended with %v, want its end", a.Err)
			}
			if last := events[len(events)-1]; api.name != "responses" && last.data != "[DONE]" {
				t.Errorf("last event %q, want [DONE]", last.data)
			}
		})
		t.Run(api.name+"/"+simengine.FaultErrorThenCut, func(t *testing.T) {
			w, a, _ := sendAndRead(t, simengine.FaultErrorThenCut)
			expectCut(t, w, a)
		})
	}
	f.ClearFaults()
}
