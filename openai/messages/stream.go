package messages

import (
	"strconv"

	"colonnade/openai"
)

// blockKind is the kind of a block of content in a stream.
type blockKind uint8

const (
	noBlock blockKind = iota
	textKind
	thinkingKind
	toolKind
)

const ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n"

// Stream translates the chunks of a chat stream to the events of a Messages stream.
type Stream struct {
	asked   Asked
	started bool // message_start was sent
	open    blockKind
	index   int    // of the open block, or else of the next one
	delta   []byte // of the open block: the event up to the raw text
	callAt  []byte // of the open block of a tool: the raw index of its call
	callID  []byte // and the raw id
	end     ending
}

// NewStream returns a Stream at its beginning.
func NewStream(a *Asked) *Stream { return &Stream{asked: *a} }

// Translator returns the functions of the stream for package openai.
func (s *Stream) Translator() *openai.Translator {
	return &openai.Translator{Event: s.Event, End: s.End}
}

// Event appends the events that say the same as the data of a chunk. ok is false if the data is not a chunk: the stream cannot go on.
func (s *Stream) Event(dst, data []byte) (out []byte, ok bool) {
	var id, model []byte
	var c choice
	found := false
	j := openai.NewJSON(data, true)
	for key, more := j.FirstMember(); more; key, more = j.NextMember() {
		switch string(key) {
		case "choices":
			found = c.first(&j)
		case "id":
			id = j.Value()
		case "model":
			model = j.Value()
		default:
			j.Skip()
		}
	}
	if !j.End() {
		return dst, false
	}
	if !s.started && (found || isText(id)) {
		dst = s.start(dst, id, model)
	}
	return s.choice(dst, &c)
}

// start appends message_start.
func (s *Stream) start(dst, id, model []byte) []byte {
	s.started = true
	dst = append(dst, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":"...)
	dst = appendID(dst, id)
	dst = append(dst, `,"type":"message","role":"assistant","model":`...)
	dst = appendStringOr(dst, model, "")
	dst = append(dst, `,"content":[],"stop_reason":null,"stop_sequence":null,"usage":`...)
	return append(appendUsage(dst, openai.Usage{}), "}}\n\n"...)
}

func (s *Stream) choice(dst []byte, c *choice) (out []byte, ok bool) {
	if c.finish != nil || c.stopped != nil || c.part.refusal != nil {
		s.end.note(c)
	}
	p := &c.part
	if isText(p.reasoning) {
		dst = s.think(dst, p.reasoning)
	}
	if len(p.content) > 0 && p.content[0] == '[' {
		p.content = textOf(p.content)
	}
	if isText(p.content) {
		dst = s.text(dst, textKind, p.content)
	}
	if isText(p.refusal) {
		dst = s.text(dst, textKind, p.refusal)
	}
	ok = true
	eachCall(p.calls, func(c *call) {
		if ok {
			dst, ok = s.tool(dst, c)
		}
	})
	return dst, ok
}

// think appends thinking, or a ping in its place: a client that has not asked for it should not wait in silence.
func (s *Stream) think(dst, raw []byte) []byte {
	if s.asked.ShowThinking {
		return s.text(dst, thinkingKind, raw)
	}
	return append(dst, ping...)
}

// text appends a raw string to the open block of a kind, which it opens first if needed.
func (s *Stream) text(dst []byte, kind blockKind, raw []byte) []byte {
	if s.open != kind {
		dst = s.begin(s.close(dst), kind)
		switch kind {
		case textKind:
			dst = append(dst, `{"type":"text","text":""}`...)
		case thinkingKind:
			dst = append(dst, `{"type":"thinking","thinking":"","signature":""}`...)
		}
		dst = append(dst, "}\n\n"...)
	}
	dst = append(dst, s.delta...)
	dst = append(dst, raw...)
	return append(dst, "}}\n\n"...)
}

// deltas are the beginnings of the deltas of a block.
var deltas = [...]string{
	textKind:     `{"type":"text_delta","text":`,
	thinkingKind: `{"type":"thinking_delta","thinking":`,
	toolKind:     `{"type":"input_json_delta","partial_json":`,
}

// begin appends content_block_start up to the block.
func (s *Stream) begin(dst []byte, kind blockKind) []byte {
	s.open = kind
	s.delta = s.head(s.delta[:0], "content_block_delta")
	s.delta = append(append(s.delta, `,"delta":`...), deltas[kind]...)
	return append(s.head(dst, "content_block_start"), `,"content_block":`...)
}

// head appends the beginning of an event of the open block.
func (s *Stream) head(dst []byte, name string) []byte {
	dst = append(append(dst, "event: "...), name...)
	dst = append(append(dst, "\ndata: {\"type\":\""...), name...)
	return strconv.AppendInt(append(dst, `","index":`...), int64(s.index), 10)
}

// close ends the open block, if there is one.
func (s *Stream) close(dst []byte) []byte {
	if s.open == noBlock {
		return dst
	}
	if s.open == thinkingKind {
		dst = append(s.head(dst, "content_block_delta"), `,"delta":{"type":"signature_delta","signature":"`+unsigned+"\"}}\n\n"...)
	}
	dst = append(s.head(dst, "content_block_stop"), "}\n\n"...)
	s.open = noBlock
	s.index++
	return dst
}

// tool appends a piece of a call. ok is false if it belongs to a call whose block is closed.
func (s *Stream) tool(dst []byte, c *call) (out []byte, ok bool) {
	if s.open != toolKind || !s.continues(c) {
		if !isText(c.name) {
			return dst, !isText(c.arguments) // there is nothing that it could belong to
		}
		dst = s.beginTool(dst, c)
	}
	switch {
	case isText(c.arguments):
		dst = append(append(dst, s.delta...), c.arguments...)
	case len(c.arguments) > 2 && c.arguments[0] == '{': // TGI has sent the object itself
		dst = openai.AppendString(append(dst, s.delta...), c.arguments)
	default:
		return dst, true
	}
	return append(dst, "}}\n\n"...), true
}

// continues reports whether a piece belongs to the call of the open block. Some engines give all calls the same index, others repeat the id
// and the name.
func (s *Stream) continues(c *call) bool {
	if len(c.index) > 0 && string(s.callAt) != string(c.index) {
		return false
	}
	return !isText(c.id) || string(s.callID) == string(c.id) || !isText(c.name)
}

// beginTool opens the block of a call.
func (s *Stream) beginTool(dst []byte, c *call) []byte {
	dst = s.close(dst)
	s.callAt, s.callID = append(s.callAt[:0], c.index...), append(s.callID[:0], c.id...)
	s.end.called = true
	dst = append(s.begin(dst, toolKind), `{"type":"tool_use","id":`...)
	dst = appendStringOr(dst, c.id, "toolu_"+strconv.Itoa(s.index))
	dst = append(append(dst, `,"name":`...), c.name...)
	return append(dst, ",\"input\":{}}}\n\n"...)
}

// End appends the last events of a stream that has ended properly.
func (s *Stream) End(dst []byte, u openai.Usage) []byte {
	if !s.started {
		dst = s.start(dst, nil, nil)
	}
	dst = s.close(dst)
	dst = append(dst, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...)
	dst = s.end.append(dst, &s.asked)
	dst = appendUsage(append(dst, `},"usage":`...), u)
	return append(dst, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}
