package openai

import "unicode/utf8"

// maxModel bounds a model's name in a body. Names in the fleet are at most half
// as long, so a longer one names no model.
const maxModel = 256

// span is a piece of a body, from its first byte to the one after its last.
type span struct{ from, to int }

// Body is what had to be known of a request's body, and where that stands in it.
type Body struct {
	Model        string
	Stream       bool // the client asks for a stream of events
	IncludeUsage bool // and for usage in it
	MaxTokens    int  // the most it wants generated, 0 = it does not say

	usage   bool // an API whose streams can be asked for usage
	form    bool // multipart
	model   span // the model's value as written, quotes included
	options span // the value of stream_options
	include span // the value of include_usage in it
	empty   bool // it is an object without members
	null    bool // it is null
	end     int  // the brace that closes the body
}

// field is a member of a body that matters here; one bit each.
type field uint16

const (
	fieldModel field = 1 << iota
	fieldStream
	fieldStreamOptions
	fieldStreamFormat
	fieldMaxTokens
	fieldMaxCompletionTokens
	fieldMaxOutputTokens
	fieldPreviousResponse
	fieldConversation
	fieldBackground
)

func fieldOf(key []byte) field {
	switch string(key) {
	case "model":
		return fieldModel
	case "stream":
		return fieldStream
	case "stream_options":
		return fieldStreamOptions
	case "stream_format":
		return fieldStreamFormat
	case "max_tokens":
		return fieldMaxTokens
	case "max_completion_tokens":
		return fieldMaxCompletionTokens
	case "max_output_tokens":
		return fieldMaxOutputTokens
	case "previous_response_id":
		return fieldPreviousResponse
	case "conversation":
		return fieldConversation
	case "background":
		return fieldBackground
	}
	return 0
}

// Peek passes over a request's body once, checks it, and finds what must be
// known of it. contentType is the header's value; an empty one is taken for
// JSON. Forms are understood where the API has them. The body must not be
// compressed.
func Peek(api API, contentType string, body []byte) (Body, *Error) {
	if isForm(contentType) && (api == Transcriptions || api == Images) {
		return peekForm(contentType, body)
	}
	if contentType != "" && !isJSON(contentType) {
		return Body{}, InvalidRequest("", "the content type %q is not supported here: send application/json in UTF-8", cut(contentType))
	}
	p := peeker{scan: scan{b: body}, api: api}
	p.body.usage = api == Chat || api == Completions
	if !p.object() {
		return Body{}, p.problem()
	}
	return p.body, nil
}

type peeker struct {
	scan
	api  API
	body Body
	seen field
	err  *Error // a fault that is not one of syntax
}

func (p *peeker) refuse(e *Error) bool {
	p.err = e
	return false
}

func (p *peeker) problem() *Error {
	switch {
	case p.err != nil:
		return p.err
	case p.fault == faultDepth:
		return InvalidRequest("", "the body nests deeper than %d levels", maxDepth)
	case p.fault == faultText:
		return InvalidRequest("", "the body is not valid JSON: a string before byte %d has a control character or is not UTF-8", p.i)
	}
	return InvalidRequest("", "the body is not valid JSON: see byte %d", p.i)
}

func (p *peeker) object() bool {
	for key, ok := p.firstMember(); ok; key, ok = p.nextMember() {
		f, fine := p.field(key)
		if !fine || !p.member(f) {
			return false
		}
	}
	if p.fault != noFault {
		return false
	}
	p.body.end = p.i - 1
	if !p.end() {
		return p.fail(faultSyntax)
	}
	if p.seen&fieldModel == 0 {
		return p.refuse(InvalidRequest("model", "the body has no \"model\": name the model to use"))
	}
	return true
}

// field tells which field a key is. A field that occurs twice, or under a name
// that some parsers take for it, is refused: the engine must not see another
// value than was seen here.
func (p *peeker) field(key []byte) (field, bool) {
	f := fieldOf(key)
	if f == 0 && !plainKey(key) && len(key) <= maxKey {
		var buf [maxKey]byte
		if f = fieldOf(appendFolded(buf[:0], key)); f != 0 {
			return 0, p.refuse(InvalidRequest("", "the field %q must be written in lower case", string(key)))
		}
	}
	if p.seen&f != 0 {
		return 0, p.refuse(InvalidRequest(string(key), "the field %q occurs twice", string(key)))
	}
	p.seen |= f
	return f, true
}

func (p *peeker) member(f field) bool {
	switch f {
	case fieldModel:
		return p.modelName()
	case fieldStream:
		return p.flag("stream", &p.body.Stream)
	case fieldStreamOptions:
		return p.streamOptions()
	case fieldStreamFormat:
		return p.streamFormat()
	case fieldMaxTokens, fieldMaxCompletionTokens, fieldMaxOutputTokens:
		return p.maxTokens()
	case fieldPreviousResponse:
		return p.unsupported("previous_response_id")
	case fieldConversation:
		return p.unsupported("conversation")
	case fieldBackground:
		return p.unsupported("background")
	}
	return p.skip()
}

func (p *peeker) modelName() bool {
	start := p.i
	if p.peek() != '"' {
		return p.refuse(InvalidRequest("model", "\"model\" must be a string"))
	}
	raw, escaped, ok := p.str()
	if !ok {
		return false
	}
	p.body.model = span{start, p.i}
	if escaped {
		if raw, ok = appendUnescaped(nil, raw); !ok {
			return p.refuse(InvalidRequest("model", "\"model\" has half a surrogate pair"))
		}
	}
	p.err = checkModel(raw)
	p.body.Model = string(raw)
	return p.err == nil
}

// checkModel refuses names that no model can have, so that what is repeated in
// logs and messages later is short text without control characters.
func checkModel(name []byte) *Error {
	if len(name) == 0 {
		return InvalidRequest("model", "\"model\" is empty: name the model to use")
	}
	if len(name) > maxModel {
		return ModelNotFound(string(name))
	}
	for _, c := range name {
		if c < ' ' || c == 0x7f {
			return InvalidRequest("model", "\"model\" has a control character")
		}
	}
	if !utf8.Valid(name) {
		return InvalidRequest("model", "\"model\" is not UTF-8")
	}
	return nil
}

// flag reads true, false or null. What else some engines take for true ("true",
// 1) is refused, since others do not.
func (p *peeker) flag(param string, to *bool) bool {
	*to = p.at("true")
	if !*to && !p.at("false") && !p.at("null") {
		return p.refuse(InvalidRequest(param, "%q must be true or false", param))
	}
	return p.scalar()
}

func (p *peeker) streamOptions() bool {
	start := p.i
	if p.peek() != '{' {
		if !p.at("null") {
			return p.refuse(InvalidRequest("stream_options", "\"stream_options\" must be an object"))
		}
		ok := p.scalar()
		p.body.options, p.body.null = span{start, p.i}, true
		return ok
	}
	members := 0
	for key, ok := p.firstMember(); ok; key, ok = p.nextMember() {
		members++
		if !p.option(key) {
			return false
		}
	}
	p.body.options, p.body.empty = span{start, p.i}, members == 0
	return p.fault == noFault
}

func (p *peeker) option(key []byte) bool {
	const name = "include_usage"
	if string(key) != name {
		if equalFold(key, name) || foldsTo(key, name) {
			return p.refuse(InvalidRequest("stream_options", "the field %q must be written in lower case", string(key)))
		}
		return p.skip()
	}
	if p.body.include != (span{}) {
		return p.refuse(InvalidRequest("stream_options", "the field %q occurs twice", name))
	}
	start := p.i
	ok := p.flag("stream_options", &p.body.IncludeUsage)
	p.body.include = span{start, p.i}
	return ok
}

func foldsTo(key []byte, name string) bool {
	if len(key) > maxKey {
		return false
	}
	var buf [maxKey]byte
	return string(appendFolded(buf[:0], key)) == name
}

// streamFormat is how a speech request asks for events.
func (p *peeker) streamFormat() bool {
	raw, ok := p.value()
	if text, is := unquoted(raw); ok && is && p.api == Speech && string(text) == "sse" {
		p.body.Stream = true
	}
	return ok
}

// maxTokens reads any of the three names of the bound; the largest counts. Other
// values than counts are for the engine to refuse.
func (p *peeker) maxTokens() bool {
	raw, ok := p.value()
	n, _ := count(raw)
	p.body.MaxTokens = max(p.body.MaxTokens, n)
	return ok
}

// unsupported passes over a field that asks the responses API to keep state;
// null and false do not ask.
func (p *peeker) unsupported(param string) bool {
	if p.api != Responses || p.at("null") || param == "background" && p.at("false") {
		return p.skip()
	}
	return p.refuse(UnsupportedParameter(param))
}
