package openai

import (
	"unicode/utf8"

	"colonnade/internal/ascii"
)

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

// CheckModel refuses a name that no model can have.
func CheckModel(name string) *Error { return checkModel([]byte(name)) }

// checkModel refuses names that no model can have, so that a name in logs and messages is short text without control
// characters.
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

// flag reads true, false or null, which leaves the default. Other values that some engines take for true ("true", 1) are refused, since the
// other engines do not.
func (p *peeker) flag(param string, to *bool) bool {
	if p.at("null") {
		return p.scalar()
	}
	*to = p.at("true")
	if !*to && !p.at("false") {
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
		p.body.options, p.body.optionsAre = span{start, p.i}, nullValue
		return ok
	}
	members := 0
	for key, ok := p.firstMember(); ok; key, ok = p.nextMember() {
		members++
		if !p.option(key) {
			return false
		}
	}
	if p.body.options = (span{start, p.i}); members == 0 {
		p.body.optionsAre = emptyValue
	}
	return p.fault == noFault
}

func (p *peeker) option(key []byte) bool {
	const name = "include_usage"
	if string(key) != name {
		if hasNUL(key) {
			return p.refuse(keyWithNUL())
		}
		if ascii.EqualFold(key, name) || foldsTo(key, name) {
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

// chatTemplateKwargs passes the variables of the chat template, among which some engines accept the template itself.
func (p *peeker) chatTemplateKwargs() bool {
	if p.space() != '{' {
		return p.skip()
	}
	for key, ok := p.firstMember(); ok; key, ok = p.nextMember() {
		if hasNUL(key) {
			return p.refuse(keyWithNUL())
		}
		if string(key) == "chat_template" && !p.at("null") {
			p.body.EngineFields |= engineFieldNamed(key).engine()
		}
		if !p.skip() {
			return false
		}
	}
	return p.fault == noFault
}

func foldsTo(key []byte, name string) bool {
	if len(key) > maxKey {
		return false
	}
	var buf [maxKey]byte
	return string(appendFolded(buf[:0], key)) == name
}

// streamFormat reads the field by which a speech request asks for events.
func (p *peeker) streamFormat() bool {
	raw, ok := p.value()
	if text, is := unquoted(raw); ok && is && p.api == Speech && string(text) == "sse" {
		p.body.Stream = true
	}
	return ok
}

// maxTokens reads any of the names of the bound; the largest counts. The engine refuses values that are no
// counts.
func (p *peeker) maxTokens(f field) bool {
	start := p.start()
	raw, ok := p.value()
	n, isNumber := ascii.ParseUint(raw)
	p.body.MaxTokens = max(p.body.MaxTokens, n)
	switch at := (span{start, p.i}); {
	case !ok || p.api != Chat:
	case f == fieldMaxCompletionTokens && isNumber:
		p.body.mostTokens = at
	case f == fieldMaxTokens && string(raw) == "null":
		p.body.nullMaxTokens = at
	case f == fieldMaxTokens:
		p.body.saysMaxTokens = true
	}
	return ok
}

// unsupported passes a field that asks the responses API to keep state; null and false do not ask.
func (p *peeker) unsupported(param string) bool {
	if p.api != Responses || p.at("null") || param == "background" && p.at("false") {
		return p.skip()
	}
	return p.refuse(UnsupportedParameter(param))
}
