package openai

// The events of the APIs that are not OpenAI's. Their members were found in the sources of the engines: Anthropic's Messages as vLLM
// (entrypoints/anthropic), SGLang (srt/entrypoints/anthropic), llama.cpp (tools/server) and Ollama (anthropic/) send them; Ollama's own
// (api/types.go); TGI's (router/src/lib.rs, StreamResponse); and llama.cpp's own (tools/server/server-task.cpp, to_json_non_oaicompat; which
// paths have it, and not OpenAI's form, is in https://github.com/ggml-org/llama.cpp/blob/master/tools/server/server.cpp).

// stopMark is what an event of llama.cpp's own API has in its member stop.
type stopMark uint8

const (
	stopAbsent stopMark = iota
	stopFalse
	stopTrue
)

// parseEvent reads an event's data in the form of an API. The result refers to data.
func parseEvent(api API, data []byte) (message, bool) {
	if api.answersNatively() {
		return parseNative(api, data)
	}
	return parseMessage(data)
}

// answersNatively reports whether the answers of an API have a form of their own, and not that of OpenAI's.
func (a API) answersNatively() bool {
	switch a {
	case Messages, Infill, LlamaCompletions, OllamaChat, OllamaGenerate, OllamaEmbed, Generate:
		return true
	}
	return false
}

func parseNative(api API, data []byte) (m message, ok bool) {
	s := scan{b: data, lax: true}
	m.sequence, m.counts = -1, noCounts
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		if s.nativeMember(api, key, &m) {
			continue
		}
		switch string(key) {
		case "type":
			m.typ = s.text()
		case "error":
			m.failed = s.errorValue(&m.fault) || m.failed
		default:
			m.failed = s.errorMember(key, &m.fault) || m.failed
		}
	}
	return m, s.end()
}

// noteNative completes what an event of these APIs says by what others have said before.
func (s *Stream) noteNative(m *message) {
	switch s.config.API {
	case Messages:
		if string(m.typ) != "content_block_delta" { // message_delta has the reason of the end in its delta
			m.deltas = 0
		}
		s.seen.counts.merge(m.counts)
		m.usage = s.seen.counts.usage()
	case Infill, LlamaCompletions:
		s.noteStop(m)
		s.noteUsageOf(m)
	}
}

// StreamParts is how many completions a stream of llama.cpp's own API has, each with an end of its own. Not all of them need to have begun when
// the first has ended: a prompt waits for a slot of the engine. The zero value means one.
type StreamParts struct {
	AtLeast uint32 // one for each prompt
	AtMost  uint32 // with n_cmpl, which older versions ignore
}

// minCompletions bounds the completions of a stream that are counted one by one if its request asked for fewer.
const minCompletions = 1024

// ofSeveral is one of the completions of a stream.
type ofSeveral struct {
	begun, stopped bool
	usage          Usage
}

// completion returns what is known of one completion of the stream; nil if no request asks for so many.
func (s *Stream) completion(index int) *ofSeveral {
	if index >= max(int(s.config.Parts.AtMost), minCompletions) {
		return nil
	}
	for len(s.seen.several) <= index {
		s.seen.several = append(s.seen.several, ofSeveral{})
	}
	return &s.seen.several[index]
}

// noteUsageOf makes the usage of one completion that of all completions of the stream, of which each event describes one.
func (s *Stream) noteUsageOf(m *message) {
	one := s.completion(m.index)
	if !m.hasUsage || one == nil {
		return
	}
	one.usage, m.usage = m.usage, Usage{}
	for i := range s.seen.several {
		m.usage.add(s.seen.several[i].usage)
	}
}

// noteStop records the end of one completion of llama.cpp's own API. The stream is complete if each prompt has an answer, and each completion that has
// begun has ended. If the client has chosen the fields of the last event (response_fields), it may lack the members stop and index; all events before it
// have them.
func (s *Stream) noteStop(m *message) {
	p, want := &s.seen, s.config.Parts
	one := s.completion(m.index)
	switch {
	case m.failed:
		return
	case m.stop == stopAbsent:
		if p.begun > 0 {
			p.stopped++
		}
	case one == nil:
	default:
		if !one.begun {
			one.begun = true
			p.begun++
		}
		if m.stop == stopTrue && !one.stopped {
			one.stopped = true
			p.stopped++
		}
	}
	m.ends = p.stopped >= max(int(want.AtLeast), p.begun, 1)
	p.mayBeMore = m.ends && p.stopped < int(want.AtMost)
}

// nativeMember reads a member if it is one of this API's own, and reports whether it is.
func (s *scan) nativeMember(api API, key []byte, m *message) bool {
	switch api {
	case Messages:
		return s.messagesMember(key, m)
	case Infill, LlamaCompletions:
		return s.llamaMember(key, m)
	case OllamaChat, OllamaGenerate, OllamaEmbed:
		return s.ollamaMember(key, m)
	case Generate:
		return s.tgiMember(key, m)
	}
	return false
}

// messagesMember reads an event of Anthropic's Messages. The event message_start has a message with a usage; early versions of vLLM have the
// usage beside it.
func (s *scan) messagesMember(key []byte, m *message) bool {
	switch string(key) {
	case "delta":
		m.deltas += s.filled()
	case "usage":
		s.messagesUsage(m)
	case "message":
		if s.space() != '{' {
			s.skip()
			break
		}
		for inner, more := s.firstMember(); more; inner, more = s.nextMember() {
			if string(inner) == "usage" {
				s.messagesUsage(m)
			} else {
				s.skip()
			}
		}
	default:
		return false
	}
	return true
}

func (s *scan) messagesUsage(m *message) {
	if s.tokenCounts(&m.counts) {
		m.usage, m.hasUsage = m.counts.usage(), true
	}
}

// llamaMember reads an event of llama.cpp's own API. The last of a completion has "stop": true, and there is one for each completion.
func (s *scan) llamaMember(key []byte, m *message) bool {
	switch string(key) {
	case "content":
		m.deltas = max(m.deltas, s.filled())
	case "index":
		s.count(&m.index)
	case "stop":
		raw, _ := s.value()
		m.stop = stopFalse
		if string(raw) == "true" {
			m.stop = stopTrue
		}
	case "tokens_evaluated":
		m.hasUsage = s.count(&m.usage.Prompt) || m.hasUsage
	case "tokens_predicted":
		m.hasUsage = s.count(&m.usage.Completion) || m.hasUsage
	case "timings":
		s.memberCount("cache_n", &m.usage.Cached)
	default:
		return false
	}
	return true
}

// ollamaMember reads a line of Ollama's own API, or a whole answer.
func (s *scan) ollamaMember(key []byte, m *message) bool {
	switch string(key) {
	case "done":
		raw, _ := s.value()
		m.ends = string(raw) == "true"
	case "response", "thinking":
		m.deltas = max(m.deltas, s.filled())
	case "message":
		if s.space() == '{' {
			m.deltas = max(m.deltas, s.delta())
		} else {
			s.skip()
		}
	case "prompt_eval_count":
		m.hasUsage = s.count(&m.usage.Prompt) || m.hasUsage
	case "eval_count":
		m.hasUsage = s.count(&m.usage.Completion) || m.hasUsage
	default:
		return false
	}
	return true
}

// tgiMember reads an event of TGI's own API, or a whole answer. The last event has the whole text, and details if the client asked for them.
func (s *scan) tgiMember(key []byte, m *message) bool {
	switch string(key) {
	case "token":
		m.deltas = max(m.deltas, s.filled())
	case "generated_text":
		raw, ok := s.value()
		m.ends = ok && raw[0] == '"'
	case "details":
		s.tgiDetails(m)
	default:
		return false
	}
	return true
}

// tgiDetails reads the details of an answer.
func (s *scan) tgiDetails(m *message) {
	if s.space() != '{' {
		s.skip()
		return
	}
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		switch string(key) {
		case "generated_tokens":
			m.hasUsage = s.count(&m.usage.Completion) || m.hasUsage
		case "input_length":
			m.hasUsage = s.count(&m.usage.Prompt) || m.hasUsage
		default:
			s.skip()
		}
	}
}

// memberCount passes a value. If it is an object with a count of that name, it sets to.
func (s *scan) memberCount(name string, to *int) {
	if s.space() != '{' {
		s.skip()
		return
	}
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		if string(key) == name {
			s.count(to)
		} else {
			s.skip()
		}
	}
}
