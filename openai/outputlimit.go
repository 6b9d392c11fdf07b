package openai

import (
	"slices"
	"strconv"

	"colonnade/internal/ascii"
)

// outputFields are the names under which engines know the most tokens of an answer. One that an engine does not know must not be above a
// limit either, since which engine gets the request is not known yet.
var outputFields = []string{"max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict", "num_predict", "max_new_tokens", "max_tokens_to_sample"}

// outputPlace is where requests of an API say the most tokens of an answer.
type outputPlace struct {
	object string   // the member that has the fields; empty = the body itself
	fields []string // any of which counts; a limit is written to the first
	others []string // that some versions of the engine read in the place of the first: what they say is the limit, if it is smaller
}

// outputPlaceOf returns the place in requests of an API; false if its answers are no generated text.
func outputPlaceOf(api API) (outputPlace, bool) {
	switch api {
	case Chat:
		return outputPlace{fields: []string{"max_tokens", "max_completion_tokens"}}, true
	case Completions, Messages:
		return outputPlace{fields: []string{"max_tokens"}}, true
	case Responses:
		return outputPlace{fields: []string{"max_output_tokens"}}, true
	case Infill, LlamaCompletions:
		return outputPlace{fields: []string{"n_predict"}, others: []string{"max_tokens", "max_completion_tokens"}}, true
	case OllamaChat, OllamaGenerate:
		return outputPlace{object: "options", fields: []string{"num_predict"}}, true
	case Generate:
		return outputPlace{object: "parameters", fields: []string{"max_new_tokens"}}, true
	}
	return outputPlace{}, false
}

// outputScan looks for the fields of an outputPlace in a body.
type outputScan struct {
	scan
	place  outputPlace
	limit  int
	bound  int  // that is written, at most limit
	stated bool // a field of the place has a number
	null   span // the value null of its first field
	inside span // the value of its object
	end    int  // the closing brace of the body
	err    *Error
}

// LimitOutput returns a body whose answers have at most limit tokens each: the body itself if it asks for no more, or one with a bound if
// it does not say how many it asks for, and the bound. It refuses a body that asks for more. The body must have passed Peek.
func LimitOutput(api API, body []byte, limit int) (limited []byte, bound int, err *Error) {
	place, ok := outputPlaceOf(api)
	if !ok {
		return body, 0, nil
	}
	s := outputScan{scan: scan{b: body}, place: place, limit: limit, bound: limit}
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		s.member(string(key))
	}
	s.end = s.i - 1
	if s.err != nil || s.fault != noFault || s.stated {
		return body, 0, s.err
	}
	return s.splice(), s.bound, nil
}

func (s *outputScan) member(key string) {
	if key != s.place.object || key == "" || s.space() != '{' {
		start := s.start()
		s.field(key, s.place.object == "")
		if key == s.place.object {
			s.inside = span{start, s.i}
		}
		return
	}
	start := s.start()
	for name, more := s.firstMember(); more; name, more = s.nextMember() {
		s.field(string(name), true)
	}
	s.inside = span{start, s.i}
}

// field passes the value of a field. here says whether the fields of the place stand beside it.
func (s *outputScan) field(name string, here bool) {
	start := s.start()
	raw, ok := s.value()
	if !ok || !slices.Contains(outputFields, name) {
		return
	}
	counts := here && slices.Contains(s.place.fields, name)
	if string(raw) == "null" {
		if counts && name == s.place.fields[0] {
			s.null = span{start, s.i}
		}
		return
	}
	n, ok := ascii.ParseUint(raw)
	if (!ok || n > s.limit) && s.err == nil {
		s.err = TooMuchOutput(name, s.limit)
	}
	s.stated = s.stated || counts
	if here && ok && slices.Contains(s.place.others, name) {
		s.bound = min(s.bound, n)
	}
}

// splice returns the body with the limit.
func (s *outputScan) splice() []byte {
	number := strconv.Itoa(s.bound)
	member := `"` + s.place.fields[0] + `":` + number
	switch {
	case s.null != span{}:
		return s.replace(s.null, number)
	case s.place.object == "":
		return s.replace(span{s.end, s.end}, s.separator(s.end)+member)
	case s.inside == span{}:
		return s.replace(span{s.end, s.end}, s.separator(s.end)+`"`+s.place.object+`":{`+member+`}`)
	case s.b[s.inside.from] != '{': // null, or what no engine accepts
		return s.replace(s.inside, `{`+member+`}`)
	}
	closing := s.inside.to - 1
	return s.replace(span{closing, closing}, s.separator(closing)+member)
}

// separator returns the comma before a new member at the end of an object that closes at a byte, if it has other members.
func (s *outputScan) separator(closing int) string {
	for i := closing - 1; i >= 0; i-- {
		switch s.b[i] {
		case ' ', '\t', '\r', '\n':
		case '{':
			return ""
		default:
			return ","
		}
	}
	return ""
}

func (s *outputScan) replace(at span, text string) []byte {
	return slices.Concat(s.b[:at.from], []byte(text), s.b[at.to:])
}

// ReadsMaxTokens reports whether chats for engines of a kind should say their bound as max_tokens too, since not all versions obey
// max_completion_tokens. All of these accept both fields in one request.
//
//   - Ollama reads max_tokens alone (https://github.com/ollama/ollama/blob/main/openai/openai.go, https://github.com/ollama/ollama/pull/14464);
//   - so does TGI (https://github.com/huggingface/text-generation-inference/issues/2844, 2925);
//   - llama.cpp reads both since February 2026 (https://github.com/ggml-org/llama.cpp/pull/19831);
//   - Triton since June 2025 (https://github.com/triton-inference-server/server/pull/8226);
//   - SGLang since May 2025 (https://github.com/sgl-project/sglang/pull/5857).
//
// vLLM reads both. Of other engines nothing is known, and some models of OpenAI refuse max_tokens.
func ReadsMaxTokens(kind string) bool {
	switch kind {
	case "ollama", "tgi", "llamacpp", "triton", "sglang":
		return true
	}
	return false
}
