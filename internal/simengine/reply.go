package simengine

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/gorilla/websocket"
)

// serverEvent is the union of the events that a realtime session sends.
type serverEvent struct {
	Type         string          `json:"type"`
	EventID      string          `json:"event_id"`
	Session      any             `json:"session,omitempty"`
	Response     *realtimeAnswer `json:"response,omitempty"`
	ResponseID   string          `json:"response_id,omitempty"`
	ItemID       string          `json:"item_id,omitempty"`
	OutputIndex  *int            `json:"output_index,omitempty"`
	ContentIndex *int            `json:"content_index,omitempty"`
	Delta        *string         `json:"delta,omitempty"`
	Text         *string         `json:"text,omitempty"`
	Error        *apiError       `json:"error,omitempty"`
}

type realtimeAnswer struct {
	ID     string         `json:"id"`
	Object string         `json:"object"`
	Status string         `json:"status"`
	Output []responseItem `json:"output"`
	Usage  *responseUsage `json:"usage"`
}

// reply is one response of a session while it is generated.
type reply struct {
	call    *call
	text    text
	clock   clock
	sent    int // tokens
	stalled bool
}

// due returns when the next event is due.
func (r *reply) due() time.Time { return r.clock.due(min(r.sent+1, len(r.text.tokens))) }

func (r *reply) answer(status string) *realtimeAnswer {
	return &realtimeAnswer{ID: "resp_" + r.call.id, Object: "realtime.response", Status: status, Output: []responseItem{}}
}

// describe returns the session object, with the fields that the client set.
func (s *session) describe(set json.RawMessage) any {
	d := map[string]any{}
	_ = json.Unmarshal(set, &d) // anything but an object sets nothing
	if d == nil {
		d = map[string]any{}
	}
	d["type"], d["object"], d["model"] = "realtime", "realtime.session", s.model
	return d
}

// handle answers an event of the client.
func (s *session) handle(ev clientEvent) error {
	switch ev.Type {
	case "session.update":
		return s.send(serverEvent{Type: "session.updated", Session: s.describe(ev.Session)})
	case "conversation.item.create":
		s.prompt.add(ev.Item.Content)
		return s.send(serverEvent{Type: "conversation.item.added"})
	case "input_audio_buffer.append":
		return nil
	case "response.create":
		return s.begin(ev)
	case "response.cancel":
		return s.finish("cancelled")
	case "simengine.close":
		return errors.Join(s.close(outcomeServed, ev.Code, ev.Reason), errClosed)
	}
	return s.fail(badRequest("type", "type: "+strconv.Quote(ev.Type)+": is not understood"))
}

func (s *session) begin(ev clientEvent) error {
	if s.reply != nil {
		e := badRequest("", "a response is in progress already")
		e.Code = "conversation_already_has_active_response"
		return s.fail(e)
	}
	c := &call{id: newID(), model: s.model, prompt: s.prompt, cached: s.j.e.c.Cached}
	c.prompt.add(ev.Response.Input)
	if n, ok := ev.Response.MaxOutputTokens.(float64); ok && n >= 1 {
		c.limit = int(n)
	}
	e := s.j.e
	s.reply = &reply{call: c, text: e.generate(c), clock: e.newClock(s.j.fault)}
	return s.send(serverEvent{Type: "response.created", Response: s.reply.answer("in_progress")})
}

// sendToken sends the next token, or ends the reply after the last one.
func (s *session) sendToken() error {
	r := s.reply
	if r.sent == min(fewTokens, len(r.text.tokens)) {
		if over, err := s.injectFault(); over || err != nil {
			return err
		}
	}
	if r.sent == len(r.text.tokens) {
		return s.finish("completed")
	}
	s.j.e.tokens.Add(1)
	at := 0
	r.sent++
	return s.send(serverEvent{Type: "response.output_text.delta", ResponseID: "resp_" + r.call.id, ItemID: "item_" + r.call.id,
		OutputIndex: &at, ContentIndex: &at, Delta: &r.text.tokens[r.sent-1]})
}

// finish ends the reply, if there is one.
func (s *session) finish(status string) error {
	r := s.reply
	if r == nil {
		return s.fail(badRequest("", "no response is in progress"))
	}
	s.reply = nil
	at, said := 0, text{tokens: r.text.tokens[:r.sent]}.String()
	err := s.send(serverEvent{Type: "response.output_text.done", ResponseID: "resp_" + r.call.id, ItemID: "item_" + r.call.id,
		OutputIndex: &at, ContentIndex: &at, Text: &said})
	if err != nil {
		return err
	}
	done := r.answer(status)
	done.Usage = r.call.responseUsageOf(r.sent)
	done.Output = append(done.Output, responseItem{ID: "item_" + r.call.id, Type: "message", Status: status, Role: "assistant",
		Content: []responsePart{{Type: "output_text", Text: said, Annotations: []any{}, Logprobs: []any{}}}})
	if err := s.send(serverEvent{Type: "response.done", Response: done}); err != nil {
		return err
	}
	if s.j.fault == FaultCloseIdle {
		s.j.ticket.leave(outcomeFaulted)
		return errCut
	}
	return nil
}

// injectFault does what the fault demands after a few tokens. It reports whether that replaces the next token.
func (s *session) injectFault() (over bool, err error) {
	switch s.j.fault {
	case FaultStallStream:
		s.reply.stalled = true
		return true, nil
	case FaultCutAtChunk, FaultErrorThenCut, FaultCutUnframed:
		s.j.ticket.leave(outcomeFaulted)
		return true, errCut
	case FaultCutInChunk:
		s.j.ticket.leave(outcomeFaulted)
		// A text frame that announces 100 bytes and has one.
		_, _ = s.conn.NetConn().Write([]byte{0x81, 100, '{'}) // the connection is cut in any case
		return true, errCut
	case FaultNoDone:
		if err := s.close(outcomeFaulted, websocket.CloseNormalClosure, ""); err != nil {
			return true, err
		}
		return true, errCut
	case FaultErrorThenDone:
		if err := s.fail(engineFailed()); err != nil {
			return true, err
		}
		return true, s.finish("failed")
	case FaultEndlessLine:
		return true, s.sendLongDelta(-1)
	case FaultBigAnswer:
		return false, s.sendLongDelta(bigPieces)
	}
	return false, nil
}

// sendLongDelta sends one delta of so many pieces, or of infinitely many if negative.
func (s *session) sendLongDelta(pieces int) error {
	w, err := s.conn.NextWriter(websocket.TextMessage)
	if err != nil {
		return err
	}
	if _, err := w.Write([]byte(`{"type":"response.output_text.delta","delta":"`)); err != nil {
		return err
	}
	piece := make([]byte, bigPiece)
	for i := range piece {
		piece[i] = 'x'
	}
	for i := 0; i != pieces; i++ {
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	if _, err := w.Write([]byte(`"}`)); err != nil {
		return err
	}
	return w.Close()
}
