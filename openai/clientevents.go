package openai

import (
	"bytes"
	"slices"
)

// ClientEvents follows the messages of a client in a realtime session. vLLM takes the model, which may be an adapter, from the event
// session.update and not from the handshake; OpenAI's API has a model inside the session. It is not safe for concurrent use.
type ClientEvents struct {
	Models  []string // that the messages may name
	message skeleton
}

// Write takes the next bytes of the current message.
func (e *ClientEvents) Write(p []byte) { e.message.write(p) }

// EndMessage ends the current message, and reports whether an engine may have it. It may not if the message names a model that is none of
// Models, or begins as an object and cannot be read: engines whose parsers take it could find any model in it. Sound in a binary message may
// begin in the same way; it has control characters, which JSON has not.
func (e *ClientEvents) EndMessage(isText bool) bool {
	event, cut := e.message.out, e.message.full
	e.message = skeleton{out: event[:0]}
	s := scan{b: event, lax: true}
	if blank := s.space() == 0 && s.i == len(event); !blank && s.b[s.i] != '{' || blank && !cut {
		return true
	}
	allowed := e.object(&s, true)
	if cut || !s.end() {
		return !isText && bytes.ContainsFunc(event, isControl)
	}
	return allowed
}

func isControl(c rune) bool { return c < ' ' && c != '\t' && c != '\n' && c != '\r' }

// object passes an event, or the session in it, and reports whether all models that it names are allowed.
func (e *ClientEvents) object(s *scan, isEvent bool) bool {
	allowed := true
	for key, ok := s.firstMember(); ok; key, ok = s.nextMember() {
		switch {
		case hasNUL(key): // some parsers end the name there
			allowed = false
			s.skip()
		case foldsTo(key, "model"):
			raw, _ := s.value()
			allowed = allowed && (string(raw) == "null" || bytes.HasPrefix(raw, []byte{'"'}) && slices.Contains(e.Models, string(unescaped(raw))))
		case isEvent && foldsTo(key, "session") && s.space() == '{':
			allowed = e.object(s, false) && allowed
		default:
			s.skip()
		}
	}
	return allowed
}
