package openai

import "errors"

// ErrNotTranslated is returned for a stream with an event that its Translator has no form for.
var ErrNotTranslated = errors.New("openai: the engine sent an event that cannot be translated")

// Translator turns the events of an engine's stream into those of another API, which is the client's. It is for one stream.
type Translator struct {
	// Event appends what the client gets for the data of an event that is not an error. If ok is false, the stream cannot go on.
	Event func(dst, data []byte) (out []byte, ok bool)
	// End appends what the client gets for the proper end of the stream. An engine that has not reported its usage is assumed to have
	// generated a token for each piece of content.
	End func(dst []byte, u Usage) []byte
	// RequestID is in the error that the client gets for an engine's.
	RequestID string
}

// takeTranslated delivers the translation of a complete event.
func (s *Stream) takeTranslated(event []byte) {
	s.stripped = true // the rest of its line end is not delivered either
	s.translated = s.translate(s.translated[:0], event)
	s.out.add(s.translated)
}

// keepAlive is a comment, which clients ignore.
const keepAlive = ":\n\n"

// translate appends what the client gets for an event. The client gets nothing after an error.
func (s *Stream) translate(dst, event []byte) []byte {
	failed := s.seen.failed
	name, data := s.fields(event)
	m, valid := s.meaning(name, data)
	switch {
	case failed:
		return dst
	case m.failed:
		return s.AppendError(dst, parseStreamError(s.seen.lastError.Status, data), s.config.Translate.RequestID)
	case s.seen.ended:
		return s.config.Translate.End(dst, s.translatedUsage())
	case len(data) == 0 || valid && isPing(&m):
		return append(dst, keepAlive...)
	}
	dst, ok := s.config.Translate.Event(dst, data)
	if !ok {
		s.err = ErrNotTranslated
	}
	return dst
}

func (s *Stream) translatedUsage() Usage {
	if s.seen.hasUsage {
		return s.seen.usage
	}
	return Usage{Completion: s.seen.deltas}
}

// finishTranslated is Finish for a translated stream: the bytes that are held may be the last event without its line end.
func (s *Stream) finishTranslated() []byte {
	held, before := s.held, s.seen
	s.held, s.size = nil, 0
	if before.ended {
		return nil
	}
	if s.meaning(s.fields(held)); !s.seen.ended || s.seen.failed {
		s.seen = before
		return nil
	}
	return s.config.Translate.End(nil, s.translatedUsage())
}
