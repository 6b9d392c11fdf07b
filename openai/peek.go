package openai

import "bytes"

// maxModel bounds a model's name in a body, in bytes. Names in the fleet are at most half as long, so a longer one
// names no model.
const maxModel = 256

// span is a piece of a body, from its first byte to the one after its last.
type span struct{ from, to int }

// valueKind says what the value of stream_options is.
type valueKind uint8

const (
	otherValue valueKind = iota
	emptyValue           // an object without members
	nullValue
)

// Body describes a request's body, with the places in it that may be changed.
type Body struct {
	Model        string
	MaxTokens    int // the most tokens wanted in one completion, 0 = not given
	EngineFields EngineFields

	// A waiting request has a Body, so fields of one byte stand together.
	Stream        bool      // the client asks for a stream of events
	IncludeUsage  bool      // and for usage in that stream
	completions   bool      // the prompts are those of completions
	separate      bool      // each has a stream of events of its own, and an end: see [Body.StreamParts]
	usage         bool      // the API can be asked for usage in its streams
	form          bool      // multipart
	saysMaxTokens bool      // a chat has max_tokens, which is not null
	optionsAre    valueKind // what stands in options

	choices       counted // completions of each prompt
	prompts       counted // of a completion, or inputs of embeddings, or documents to rank
	model         span    // the model's value as written, quotes included
	options       span    // the value of stream_options
	include       span    // the value of include_usage in it
	mostTokens    span    // the value of a chat's max_completion_tokens, if it is a number
	nullMaxTokens span    // the value of max_tokens, if that is null

	begin int // just after the opening brace of the body
	end   int // the closing brace of the body
}

// field is a member of a body that matters here; 0 is any other.
type field uint8

const (
	fieldModel field = iota + 1
	fieldStream
	fieldStreamOptions
	fieldStreamFormat
	fieldMaxTokens
	fieldMaxCompletionTokens
	fieldMaxOutputTokens
	fieldPreviousResponse
	fieldConversation
	fieldBackground
	fieldN
	fieldBestOf
	fieldNCmpl
	fieldPrompt
	fieldInput
	fieldInputs
	fieldContent
	fieldDocuments
	fieldTexts
	fieldChatTemplateKwargs
	fieldNPredict
	firstNativeField // of APIs that are not OpenAI's; see isNative
)

const (
	fieldText1 = firstNativeField + iota
	fieldText2
	fieldData1
	fieldData2
	fieldQueries
	fieldItems
	fieldText
	firstEngineField // see engineFieldNamed
)

// fieldSet is a set of fields.
type fieldSet [2]uint64

func (s *fieldSet) has(f field) bool { return s[f>>6]&(1<<(f&63)) != 0 }

func (s *fieldSet) add(f field) { s[f>>6] |= 1 << (f & 63) }

// isNative reports whether a field belongs to APIs of engines that are not OpenAI's. It means nothing in the others.
func (f field) isNative() bool { return f >= firstNativeField && f < firstEngineField }

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
	case "previous_response_id":
		return fieldPreviousResponse
	case "conversation":
		return fieldConversation
	case "background":
		return fieldBackground
	case "n":
		return fieldN
	case "best_of":
		return fieldBestOf
	case "n_cmpl": // llama.cpp's name of n
		return fieldNCmpl
	case "prompt":
		return fieldPrompt
	case "input":
		return fieldInput
	case "inputs": // TEI's name of input
		return fieldInputs
	case "content": // llama.cpp's name of input
		return fieldContent
	case "documents":
		return fieldDocuments
	case "texts": // TEI's name of documents
		return fieldTexts
	case "chat_template_kwargs":
		return fieldChatTemplateKwargs
	}
	if f := maxTokensFieldOf(key); f != 0 {
		return f
	}
	if f := nativeFieldOf(key); f != 0 {
		return f
	}
	return engineFieldNamed(key)
}

// maxTokensFieldOf returns the field that says how many tokens a completion may have.
func maxTokensFieldOf(key []byte) field {
	switch string(key) {
	case "max_tokens":
		return fieldMaxTokens
	case "max_completion_tokens":
		return fieldMaxCompletionTokens
	case "max_output_tokens":
		return fieldMaxOutputTokens
	case "n_predict": // llama.cpp's name
		return fieldNPredict
	}
	return 0
}

func nativeFieldOf(key []byte) field {
	switch string(key) {
	case "text_1":
		return fieldText1
	case "text_2":
		return fieldText2
	case "data_1":
		return fieldData1
	case "data_2":
		return fieldData2
	case "queries":
		return fieldQueries
	case "items": // SGLang's name of text_2
		return fieldItems
	case "text": // SGLang's name of input
		return fieldText
	}
	return 0
}

// Peek is [Body.Peek] for the first path of an API.
func Peek(api API, contentType string, body []byte) (described Body, err *Error) {
	row := &pathRow{api: api}
	for i := range paths {
		if paths[i].api == api {
			row = &paths[i]
			break
		}
	}
	err = described.peek(row, contentType, body)
	return described, err
}

// Peek passes over a request's body once, checks it, and makes b its description, which is empty after an error. contentType is the header's
// value; an empty one means JSON. Forms are accepted where the API has them. The body must not be compressed.
func (b *Body) Peek(route Route, contentType string, body []byte) *Error {
	row := rowsByPath[route.Path]
	if row == nil {
		row = &pathRow{api: route.API}
	}
	return b.peek(row, contentType, body)
}

func (b *Body) peek(row *pathRow, contentType string, body []byte) *Error {
	err := b.read(row, contentType, body)
	if err != nil {
		*b = Body{}
	}
	return err
}

func (b *Body) read(row *pathRow, contentType string, body []byte) *Error {
	api := row.api
	if (api == Transcriptions || api == Images) && isForm(contentType) {
		return b.readForm(contentType, body)
	}
	if contentType != "" && !isJSON(contentType) && !(row.dialect == DialectOllama && isUntyped(contentType)) {
		return InvalidRequest("", "the content type %q is not supported here: send application/json in UTF-8",
			Cut(contentType))
	}
	*b = Body{}
	b.usage = api == Chat || api == Completions
	b.completions = api == Completions || api == Infill || api == LlamaCompletions
	b.separate = api == LlamaCompletions // /infill has one prompt
	b.Stream = row.streams == byDefault
	p := peeker{scan: scan{b: body}, api: api, unnamed: row.unnamed, body: b}
	if !p.object() {
		return p.problem()
	}
	if row.streams == always || row.streams == never {
		b.Stream = row.streams == always
	}
	if p.fileURL {
		b.EngineFields |= EngineFieldsNamed([]string{FileURLs})
	}
	return nil
}

// readForm is a function of its own since its memory would be on the stack of each request.
//
//go:noinline
func (b *Body) readForm(contentType string, body []byte) (err *Error) {
	*b, err = peekForm(contentType, body)
	return err
}

type peeker struct {
	scan
	api     API
	unnamed bool // the body may lack a model
	body    *Body
	seen    fieldSet
	err     *Error // an error that is not one of syntax
}

func (p *peeker) refuse(e *Error) bool {
	p.err = e
	return false
}

func (p *peeker) problem() *Error {
	switch {
	case p.isCut():
		param := ""
		if p.err != nil {
			param = p.err.Param
		}
		return InvalidRequest(param, "the body is not valid JSON: it ends early, at byte %d", len(p.b))
	case p.err != nil:
		return p.err
	case p.fault == faultDepth:
		return InvalidRequest("", "the body nests deeper than %d levels", maxDepth)
	case p.fault == faultText:
		return InvalidRequest("", "the body is not valid JSON: a string before byte %d has a control character or is not UTF-8", p.i)
	}
	return InvalidRequest("", "the body is not valid JSON: see byte %d", p.i)
}

// isCut reports whether the body is malformed and ends before its brackets and quotes are closed. Then what looks like a value of a
// wrong type may be the rest of what was cut.
func (p *peeker) isCut() bool {
	malformed := p.fault == faultSyntax || p.err != nil && p.err.Number == NumberInvalidRequest
	if !malformed || isBlank(p.b) {
		return false
	}
	var end jsonEnd
	end.write(p.b)
	return end.end() == JSONOpen
}

// isBlank reports whether a body has nothing but white space.
func isBlank(body []byte) bool { return len(bytes.Trim(body, " \t\r\n")) == 0 }

func (p *peeker) object() bool {
	if p.space() != '{' {
		return p.noObject()
	}
	p.body.begin = p.i + 1
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
	if !p.seen.has(fieldModel) && !p.unnamed {
		return p.refuse(InvalidRequest("model", "the body has no \"model\": name the model to use"))
	}
	return true
}

// noObject refuses a body that does not begin as an object.
func (p *peeker) noObject() bool {
	if p.i == len(p.b) {
		return p.refuse(InvalidRequest("", "the body is empty: send a JSON object"))
	}
	if p.skip() && p.end() {
		return p.refuse(InvalidRequest("", "the body must be a JSON object"))
	}
	return p.fail(faultSyntax)
}

// field returns the field of a key. A field that occurs twice, or under a name that some parsers take for it, is
// refused: the engine must not see another value than the one seen here.
func (p *peeker) field(key []byte) (field, bool) {
	f := p.fieldOf(key)
	if f == 0 && !plainKey(key) && hasNUL(key) {
		return 0, p.refuse(keyWithNUL())
	}
	if f == 0 && !plainKey(key) && len(key) <= maxKey {
		var buf [maxKey]byte
		if f = p.fieldOf(appendFolded(buf[:0], key)); f != 0 {
			return 0, p.refuse(InvalidRequest("", "the field %q must be written in lower case", string(key)))
		}
	}
	if f == 0 {
		return 0, true
	}
	if p.seen.has(f) {
		return 0, p.refuse(InvalidRequest(string(key), "the field %q occurs twice", string(key)))
	}
	p.seen.add(f)
	return f, true
}

func (p *peeker) fieldOf(key []byte) field {
	if f := fieldOf(key); !f.isNative() || p.api.isNative() {
		return f
	}
	return 0
}

func keyWithNUL() *Error {
	return InvalidRequest("", "the name of a field has a NUL, where some parsers end it")
}

func (p *peeker) member(f field) bool {
	switch f {
	case 0:
		return p.skip()
	case fieldModel:
		return p.modelName()
	case fieldStream:
		return p.flag("stream", &p.body.Stream)
	case fieldStreamOptions:
		return p.streamOptions()
	case fieldStreamFormat:
		return p.streamFormat()
	case fieldMaxTokens, fieldMaxCompletionTokens, fieldMaxOutputTokens, fieldNPredict:
		return p.maxTokens(f)
	case fieldPreviousResponse:
		return p.unsupported("previous_response_id")
	case fieldConversation:
		return p.unsupported("conversation")
	case fieldBackground:
		return p.unsupported("background")
	case fieldN, fieldBestOf, fieldNCmpl:
		return p.choices(countName(f))
	case fieldChatTemplateKwargs:
		return p.chatTemplateKwargs()
	}
	if f < firstEngineField {
		return p.prompts(f)
	}
	return p.engineField(f)
}
