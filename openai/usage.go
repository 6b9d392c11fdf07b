package openai

import (
	"strconv"

	"colonnade/internal/ascii"
)

// Usage is an engine's report on one answer, in tokens; or the duration of the audio that it transcribed.
type Usage struct {
	Prompt     int
	Completion int
	Cached     int     // part of Prompt that came from a cache
	Seconds    float64 // of audio
}

func (u *Usage) add(v Usage) {
	u.Prompt += v.Prompt
	u.Completion += v.Completion
	u.Cached += v.Cached
	u.Seconds += v.Seconds
}

// addCached sets what llama.cpp reports beside the usage, in the member timings; its older versions report it nowhere else.
func (u *Usage) addCached(n int) {
	if u.Cached == 0 {
		u.Cached = min(n, u.Prompt)
	}
}

// BodyUsage reads the usage of an answer of an API that is not a stream: for most, the member usage of its JSON object. ok is
// false for an answer that has none, or is not JSON.
func BodyUsage(api API, body []byte) (u Usage, ok bool) {
	u, ok, _ = scanUsage(api, body)
	return u, ok
}

// ReadBody is BodyUsage, and also returns the end of the body.
func ReadBody(api API, body []byte) (u Usage, ok bool, end JSONEnd) {
	u, ok, whole := scanUsage(api, body)
	if whole {
		return u, ok, JSONClosed
	}
	var e jsonEnd
	e.write(body)
	return u, ok, e.end()
}

// HeaderUsage reads the usage that TGI and TEI report in headers of answers that are not streams, and header returns the value of a header.
// Sources: router/src/server.rs of huggingface/text-generation-inference, router/src/http/server.rs of huggingface/text-embeddings-inference.
func HeaderUsage(header func(name string) string) (u Usage, ok bool) {
	prompt := header("x-prompt-tokens")
	if prompt == "" {
		prompt = header("x-compute-tokens")
	}
	n, hasPrompt := ascii.ParseUint([]byte(prompt))
	if hasPrompt {
		u.Prompt = n
	}
	n, hasCompletion := ascii.ParseUint([]byte(header("x-generated-tokens")))
	if hasCompletion {
		u.Completion = n
	}
	return u, hasPrompt || hasCompletion
}

// scanUsage reads the usage of a body. whole means that the body is one JSON object.
func scanUsage(api API, body []byte) (u Usage, ok, whole bool) {
	if api.answersNatively() {
		return nativeUsage(api, body)
	}
	s := scan{b: body, lax: true}
	cached := 0
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		switch string(key) {
		case "usage":
			u, ok = s.usage()
		case "timings":
			s.memberCount("cache_n", &cached)
		default:
			s.skip()
		}
	}
	if ok {
		u.addCached(cached)
	}
	whole = s.end()
	return u, ok && whole, whole
}

// nativeUsage reads a whole answer of an API that is not OpenAI's. For several prompts it is a list, whose elements have a usage each.
func nativeUsage(api API, body []byte) (u Usage, ok, whole bool) {
	s := scan{b: body, lax: true}
	if s.space() != '[' {
		m, isObject := parseNative(api, body)
		return m.usage, m.hasUsage && isObject, isObject
	}
	for more := s.firstElement(); more; more = s.nextElement() {
		raw, _ := s.value()
		if m, isObject := parseNative(api, raw); isObject && m.hasUsage {
			u.add(m.usage)
			ok = true
		}
	}
	whole = s.end()
	return u, ok && whole, whole
}

// usage passes the value of a member usage, in the names of either API family. ok is false for one that counts nothing,
// such as null.
func (s *scan) usage() (u Usage, ok bool) {
	if s.space() != '{' {
		s.skip()
		return u, false
	}
	total := -1
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		switch string(key) {
		case "prompt_tokens", "input_tokens":
			ok = s.count(&u.Prompt) || ok
		case "completion_tokens", "output_tokens":
			ok = s.count(&u.Completion) || ok
		case "total_tokens":
			s.count(&total)
		case "seconds":
			ok = s.seconds(&u.Seconds) || ok
		case "prompt_tokens_details", "input_tokens_details", "input_token_details":
			s.details(&u)
		default:
			s.skip()
		}
	}
	// Embedding and rerank engines may report the sum only.
	if !ok && total >= 0 {
		u.Prompt, ok = total, true
	}
	return u, ok
}

func (s *scan) details(u *Usage) {
	if s.space() != '{' {
		s.skip()
		return
	}
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		if string(key) == "cached_tokens" {
			s.count(&u.Cached)
		} else {
			s.skip()
		}
	}
}

// maxSeconds bounds the duration of audio: a year, more than any request has.
const maxSeconds = 366 * 24 * 3600

// seconds passes a value, and sets to if it is a duration.
func (s *scan) seconds(to *float64) bool {
	raw, _ := s.value()
	if len(raw) == 0 || len(raw) > 24 || raw[0]-'0' > 9 {
		return false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f > maxSeconds {
		return false
	}
	*to = f
	return true
}

// count passes a value, and sets to if it is a count.
func (s *scan) count(to *int) bool {
	raw, _ := s.value()
	n, ok := ascii.ParseUint(raw)
	if ok {
		*to = n
	}
	return ok
}
