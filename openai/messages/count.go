package messages

import (
	"strconv"

	"colonnade/internal/ascii"
	"colonnade/openai"
)

// CountRequest appends the body of vLLM's /tokenize (https://docs.vllm.ai/en/latest/serving/openai_compatible_server/) for a conversation, from
// body, which is one of /v1/messages/count_tokens. Of the fields, only those count that are part of the prompt.
func CountRequest(dst, body []byte, model string) ([]byte, *openai.Error) {
	t := translation{options: Options{Model: model}, out: dst}
	if err := t.read(body); err != nil {
		return dst, err
	}
	t.top.values[request.mustIndex("tool_choice")] = nil
	t.out = append(t.out, `{"model":`...)
	for _, step := range []func() *openai.Error{t.model, t.tools, t.messages} {
		if err := step(); err != nil {
			return dst, err
		}
	}
	return append(t.out, `,"add_generation_prompt":true}`...), nil
}

// CountResponse appends the answer of /v1/messages/count_tokens that says the same as body, which is one of /tokenize.
func CountResponse(dst, body []byte) ([]byte, error) {
	n, found := 0, false
	j := openai.NewJSON(body, true)
	for key, ok := j.FirstMember(); ok; key, ok = j.NextMember() {
		is := string(key) == "count"
		if value := j.Value(); is {
			n, found = ascii.ParseUint(value)
		}
	}
	if !j.End() || !found {
		return dst, ErrNoAnswer
	}
	dst = strconv.AppendInt(append(dst, `{"input_tokens":`...), int64(n), 10)
	return append(dst, '}'), nil
}
