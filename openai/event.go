package openai

import "bytes"

// message is the content of an event's data, as far as it matters here.
type message struct {
	typ      []byte // the member type
	fault    engineFault
	failed   bool // it reports an error
	noChoice bool // its choices are there and empty
	reports  bool // it has a usage object
	usage    Usage
	hasUsage bool // with counts in it
	deltas   int
	sequence int // -1 = none

	// Of the APIs that are not OpenAI's:
	ends   bool        // by its content it is the last of its stream
	counts tokenCounts // of a usage that comes in parts
	index  int         // of the completion, of several at once
	stop   stopMark
}

// event records a complete event and reports whether to take it out.
func (s *Stream) event(b []byte) (strip bool) {
	name, data := s.fields(b)
	m, ok := s.meaning(name, data)
	return ok && s.config.StripUsage && (s.config.API == Chat || s.config.API == Completions) &&
		m.noChoice && m.reports && !m.failed
}

// fields reads the lines of a complete event: its name, and its data joined. A line of JSON is all data.
func (s *Stream) fields(event []byte) (name, data []byte) {
	if s.config.Framing == JSONLines {
		return nil, bytes.TrimSpace(event)
	}
	if !s.begun {
		event = bytes.TrimPrefix(event, []byte(byteOrderMark))
	}
	lines := 0
	s.nodeComment = false
	for len(event) > 0 {
		var line []byte
		if line, event = nextLine(event); len(line) == 0 {
			continue
		}
		if line[0] == ':' {
			s.nodeComment = s.nodeComment || isNodeComment(line)
			continue
		}
		field, value := splitField(line)
		switch string(field) {
		case "event":
			name = value
		case "data":
			data = s.join(data, value, lines)
			lines++
		}
	}
	return name, data
}

// join appends a further data line to the others. The first stays in place.
func (s *Stream) join(data, line []byte, before int) []byte {
	switch before {
	case 0:
		return line
	case 1:
		s.joined = append(s.joined[:0], data...)
	}
	s.joined = append(append(s.joined, '\n'), line...)
	return s.joined
}

// meaning records an event. ok is false for an event without data, or whose data is not a JSON object: it means
// nothing, and in particular not that the stream is complete.
func (s *Stream) meaning(name, data []byte) (m message, ok bool) {
	if len(data) == 0 {
		return m, false
	}
	if bytes.HasPrefix(data, []byte("[DONE]")) { // as SDKs compare
		s.commit()
		s.seen.ended = s.seen.ended || s.endsWithDone()
		s.seen.over = s.seen.ended // SDKs read no further, whatever the API
		return m, false
	}
	if m, ok = parseEvent(s.config.API, data); !ok {
		m = message{sequence: -1}
	}
	if m.typ == nil {
		m.typ = name
	}
	m.failed = m.failed || string(name) == "error" || string(m.typ) == "error" || string(m.typ) == "response.failed"
	if m.fault.class == nil {
		m.fault.class = m.typ
	}
	s.note(&m, ok)
	return m, ok
}

func (s *Stream) note(m *message, valid bool) {
	if s.seen.first == NoEvent && !isPing(m) {
		s.seen.first = DataEvent
		if m.failed {
			s.seen.first, s.seen.firstError = ErrorEvent, m.fault.engineError()
		}
	}
	if m.failed {
		s.seen.failed, s.seen.lastError = true, m.fault.engineError()
	}
	if valid && s.config.API > Completions { // whose streams end with [DONE] alone
		s.noteNative(m)
		s.noteEnd(m)
	}
	s.seen.deltas += m.deltas
	s.seen.unreported += m.deltas
	if m.hasUsage {
		s.seen.usage, s.seen.hasUsage, s.seen.unreported = m.usage, true, 0
	}
	if m.sequence >= 0 {
		s.seen.sequence = m.sequence + 1
	}
}

// noteEnd records whether an event ends the stream.
func (s *Stream) noteEnd(m *message) {
	switch {
	case s.endsWith(m):
		s.seen.ended = true
		// Another image may follow; and after an error, the event that describes the failed response.
		s.seen.over = s.config.API != Images && (s.config.API != Responses || string(m.typ) != "error") && !s.seen.mayBeMore
	case s.config.API == Images && bytes.HasSuffix(m.typ, []byte(".partial_image")):
		s.seen.ended = false // a further image has begun
	case s.config.API == Infill || s.config.API == LlamaCompletions:
		s.seen.ended = false // a further completion may have begun
	}
}

// isPing reports whether an event only keeps the connection alive.
func isPing(m *message) bool {
	return !m.failed && (string(m.typ) == "ping" || string(m.typ) == "keepalive")
}

func (s *Stream) endsWithDone() bool {
	switch s.config.API {
	case Chat, Completions, Transcriptions:
		return true
	}
	return false
}

// endsWith reports whether an event is the last of its stream.
func (s *Stream) endsWith(m *message) bool {
	kind := m.typ
	switch s.config.API {
	case Responses:
		switch string(kind) {
		case "response.completed", "response.incomplete", "response.failed", "error":
			return true
		}
	case Transcriptions:
		return string(kind) == "transcript.text.done"
	case Speech:
		return string(kind) == "speech.audio.done"
	case Images:
		return bytes.HasSuffix(kind, []byte(".completed"))
	case Messages:
		return string(kind) == "message_stop"
	case Infill, LlamaCompletions, OllamaChat, OllamaGenerate, Generate:
		return m.ends
	}
	return false
}

// parseMessage reads an event's data. The result refers to data.
func parseMessage(data []byte) (m message, ok bool) {
	s := scan{b: data, lax: true}
	m.sequence = -1
	cached := 0
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		switch string(key) {
		case "type":
			m.typ = s.text()
		case "choices":
			s.choices(&m)
		case "usage":
			s.usageOf(&m)
		case "delta":
			m.deltas += s.filled()
		case "error":
			m.failed = s.errorValue(&m.fault) || m.failed
		case "response":
			s.response(&m)
		case "sequence_number":
			s.count(&m.sequence)
		case "timings":
			s.memberCount("cache_n", &cached)
		default:
			m.failed = s.errorMember(key, &m.fault) || m.failed
		}
	}
	m.usage.addCached(cached)
	return m, s.end()
}

func (s *scan) usageOf(m *message) {
	m.reports = m.reports || s.space() == '{'
	if u, ok := s.usage(); ok {
		m.usage, m.hasUsage = u, true
	}
}

// response reads the description of the whole response in a responses event.
func (s *scan) response(m *message) {
	if s.space() != '{' {
		s.skip()
		return
	}
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		switch string(key) {
		case "usage":
			s.usageOf(m)
		case "error":
			// The event's own type says whether the response failed.
			s.errorValue(&m.fault)
		default:
			s.skip()
		}
	}
}
