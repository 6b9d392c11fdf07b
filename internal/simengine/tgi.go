package simengine

import (
	"encoding/json"
	"strconv"
)

// tgiBody is a request of TGI's own paths (GenerateRequest and CompatGenerateRequest in router/src/lib.rs). It names no model.
type tgiBody struct {
	Model      string `json:"model"` // no field of TGI, which ignores it
	Inputs     any    `json:"inputs"`
	Stream     bool   `json:"stream"` // only of /
	Parameters struct {
		MaxNewTokens *int `json:"max_new_tokens"`
		Details      bool `json:"details"`
	} `json:"parameters"`
}

func (b *tgiBody) call() (*call, error) {
	c := &call{model: b.Model, stream: b.Stream, options: options{details: b.Parameters.Details}}
	if _, ok := b.Inputs.(string); !ok {
		return c, badRequest("inputs", "inputs: must be a string")
	}
	c.prompt.add(b.Inputs)
	return c, c.wanted("max_new_tokens", b.Parameters.MaxNewTokens)
}

// tgiGenerate is an answer of /generate, /generate_stream and /. Its usage is in the head of plain answers, and in the details if the request wants them.
func tgiGenerate(e *Engine, c *call) answer {
	t := e.generate(c)
	n, reason := len(t.tokens), "eos_token"
	if t.cut {
		reason = "length"
	}
	a := t.answer(func() []byte {
		whole := object{"generated_text": t.String()}
		if c.options.details {
			whole["details"] = object{"finish_reason": reason, "generated_tokens": n, "seed": nil, "prefill": []any{}, "tokens": tgiTokens(t)}
		}
		return marshal(whole)
	})
	if !c.stream {
		a.header = [][2]string{{"X-Compute-Type", "cpu"}, {"X-Prompt-Tokens", strconv.Itoa(c.prompt.tokens)}, {"X-Generated-Tokens", strconv.Itoa(n)}}
		return a
	}
	piece := func(dst []byte, i int, said, details any) []byte {
		return tgiEvent(dst, object{"index": i + 1, "token": tgiToken(i, t.tokens[i]), "generated_text": said, "details": details})
	}
	var details any
	if c.options.details {
		details = object{"finish_reason": reason, "generated_tokens": n, "seed": nil, "input_length": c.prompt.tokens}
	}
	a.streamed, a.afterFail = true, nil
	a.token = func(dst []byte, i int) []byte {
		if i == n-1 {
			return dst // the last token comes with the end
		}
		return piece(dst, i, nil, nil)
	}
	a.end = piece(nil, n-1, t.String(), details)
	a.fail = func(dst []byte, f failPoint) []byte {
		_, body := tgiWords(f.err)
		return tgiEvent(dst, json.RawMessage(body))
	}
	return a
}

// tgiPlain is /generate, which has no field "stream".
func tgiPlain(e *Engine, c *call) answer {
	c.stream = false
	return tgiGenerate(e, c)
}

// tgiStream is /generate_stream, which answers as / does with "stream".
func tgiStream(e *Engine, c *call) answer {
	c.stream = true
	return tgiGenerate(e, c)
}

// tgiCompat is /, which wraps a plain answer in a list.
func tgiCompat(e *Engine, c *call) answer {
	a := tgiGenerate(e, c)
	whole := a.whole
	a.whole = func() []byte { return append(append([]byte{'['}, whole()...), ']') }
	return a
}

// tgiEvent has no space behind the colon, as axum writes it.
func tgiEvent(dst []byte, data any) []byte {
	return append(append(append(dst, "data:"...), marshal(data)...), "\n\n"...)
}

func tgiToken(i int, said string) object {
	return object{"id": 100 + i, "text": said, "logprob": -0.5, "special": false}
}

func tgiTokens(t text) []object {
	if t.big {
		return []object{}
	}
	all := make([]object, len(t.tokens))
	for i, said := range t.tokens {
		all[i] = tgiToken(i, said)
	}
	return all
}
