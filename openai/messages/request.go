package messages

import (
	"colonnade/internal/ascii"
	"colonnade/openai"
)

// Options is how a request is translated.
type Options struct {
	Model    string // the engine's name; "" = that of the request
	AskUsage bool   // ask for usage in a stream
}

// Asked is what the translation of an answer must know of the request.
type Asked struct {
	Stops        []string // its stop sequences
	ShowThinking bool     // its client expects blocks of thinking
	Stream       bool
}

// Request appends the body of /v1/chat/completions that does the same as body, which is one of /v1/messages. The error names the field that
// is malformed, or cannot be translated.
func Request(dst, body []byte, o Options) ([]byte, Asked, *openai.Error) {
	t := translation{options: o, out: dst}
	if err := t.request(body); err != nil {
		return dst, Asked{}, err
	}
	return t.out, t.asked, nil
}

// translation is one request on its way.
type translation struct {
	options Options
	out     []byte
	asked   Asked
	root    place
	top     object
	turn    turn
	last    string // the role of the last message
}

// read reads the fields of the request.
func (t *translation) read(body []byte) *openai.Error {
	start := 0
	for start < len(body) && (body[start] == ' ' || body[start] == '\n' || body[start] == '\r' || body[start] == '\t') {
		start++
	}
	return t.top.read(&request, &t.root, body[start:])
}

func (t *translation) request(body []byte) *openai.Error {
	if err := t.read(body); err != nil {
		return err
	}
	t.out = append(t.out, `{"model":`...)
	for _, step := range []func() *openai.Error{t.model, t.maxTokens, t.sampling, t.stops, t.stream, t.thinking, t.output, t.tools, t.messages} {
		if err := step(); err != nil {
			return err
		}
	}
	t.out = append(t.out, '}')
	return nil
}

func (t *translation) model() *openai.Error {
	if t.options.Model != "" {
		t.out = openai.AppendString(t.out, t.options.Model)
		return nil
	}
	if _, err := t.top.required("model"); err != nil {
		return err
	}
	t.out = append(t.out, t.top.get("model")...)
	return nil
}

func (t *translation) maxTokens() *openai.Error {
	raw := t.top.get("max_tokens")
	here := t.root.member("max_tokens")
	if raw == nil {
		return here.invalid("is required")
	}
	switch n, ok := ascii.ParseUint(raw); {
	case !ok:
		return here.invalid("must be a whole number")
	case n == 0:
		return here.refused("0 fills Anthropic's prompt cache, and an engine generates at least 1")
	}
	t.member("max_tokens", raw)
	return nil
}

// member appends a member that is not the first.
func (t *translation) member(name string, raw []byte) {
	t.out = append(t.out, ',', '"')
	t.out = append(t.out, name...)
	t.out = append(t.out, '"', ':')
	t.out = append(t.out, raw...)
}

// sampling copies the numbers that have the same names and meanings.
func (t *translation) sampling() *openai.Error {
	for _, name := range []string{"temperature", "top_p", "top_k"} {
		raw := t.top.get(name)
		if raw == nil {
			continue
		}
		if raw[0] != '-' && raw[0]-'0' > 9 {
			here := t.root.member(name)
			return here.invalid("must be a number")
		}
		t.member(name, raw)
	}
	return nil
}

func (t *translation) stops() *openai.Error {
	raw := t.top.get("stop_sequences")
	if raw == nil {
		return nil
	}
	here := t.root.member("stop_sequences")
	err := elements(raw, &here, func(at *place, raw []byte) *openai.Error {
		text := openai.Unescaped(raw)
		if text == nil {
			return at.invalid("must be a string")
		}
		t.asked.Stops = append(t.asked.Stops, string(text))
		return nil
	})
	if err == nil && len(t.asked.Stops) > 0 {
		t.member("stop", raw)
	}
	return err
}

// elements calls use for each element of an array.
func elements(raw []byte, at *place, use func(at *place, raw []byte) *openai.Error) *openai.Error {
	if raw[0] != '[' {
		return at.invalid("must be an array")
	}
	j := openai.NewJSON(raw, true)
	i := 0
	for more := j.FirstElement(); more; more = j.NextElement() {
		value, here := j.Value(), at.element(i)
		if value == nil {
			break
		}
		if err := use(&here, value); err != nil {
			return err
		}
		i++
	}
	if !j.End() {
		return at.invalid("is not valid JSON")
	}
	return nil
}

func (t *translation) stream() *openai.Error {
	stream, err := t.top.flag("stream")
	if err != nil || !stream {
		return err
	}
	t.asked.Stream = true
	t.member("stream", []byte("true"))
	if t.options.AskUsage {
		t.member("stream_options", []byte(`{"include_usage":true}`))
	}
	return nil
}

// thinking reads whether the answer may show what the model has thought.
func (t *translation) thinking() *openai.Error {
	raw := t.top.get("thinking")
	if raw == nil {
		return nil
	}
	var o object
	here := t.root.member("thinking")
	if err := o.read(&thinking, &here, raw); err != nil {
		return err
	}
	display, err := o.word("display")
	if err != nil {
		return err
	}
	kind, err := o.word("type")
	switch {
	case err != nil:
		return err
	case kind == "enabled" || kind == "adaptive":
		t.asked.ShowThinking = display != "omitted"
	case kind != "disabled":
		return here.invalid("type must be enabled, adaptive or disabled")
	}
	return nil
}

// output translates the form of the answer, and the effort.
func (t *translation) output() *openai.Error {
	at := t.root.member("output_format")
	format := t.top.get("output_format")
	if raw := t.top.get("output_config"); raw != nil {
		var o object
		here := t.root.member("output_config")
		if err := o.read(&outputConfig, &here, raw); err != nil {
			return err
		}
		if effort := o.get("effort"); effort != nil {
			if _, err := o.text("effort"); err != nil {
				return err
			}
			t.member("reasoning_effort", effort)
		}
		if nested := o.get("format"); nested != nil {
			format, at = nested, here.member("format")
		}
	}
	if format == nil {
		return nil
	}
	return t.format(format, &at)
}

func (t *translation) format(raw []byte, at *place) *openai.Error {
	var o object
	if err := o.read(&outputFormat, at, raw); err != nil {
		return err
	}
	kind, err := o.word("type")
	schema := o.get("schema")
	switch {
	case err != nil:
		return err
	case kind != "json_schema":
		return at.refused("its type must be json_schema")
	case len(schema) == 0 || schema[0] != '{':
		here := at.member("schema")
		return here.invalid("must be an object")
	}
	t.out = append(t.out, `,"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`...)
	t.out = append(append(t.out, schema...), "}}"...)
	return nil
}
