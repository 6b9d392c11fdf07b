package messages

import (
	"strconv"

	"colonnade/internal/ascii"
	"colonnade/openai"
)

// CountRequest appends the body of vLLM's /tokenize (https://docs.vllm.ai/en/latest/serving/openai_compatible_server/) for a conversation, from
// body, which is one of /v1/messages/count_tokens. Of the fields, only those count that are part of the prompt. TGI's /chat_tokenize reads the same
// body as a chat (https://github.com/huggingface/text-generation-inference/blob/main/router/src/server.rs), and ignores the last field: it always adds
// the prompt of the answer.
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

// CountResponse appends the answer of /v1/messages/count_tokens that says the same as body, which is one of /tokenize, with the count, or of
// TGI's /chat_tokenize, with a list of the tokens.
func CountResponse(dst, body []byte) ([]byte, error) {
	n, found := 0, false
	j := openai.NewJSON(body, true)
	for key, ok := j.FirstMember(); ok; key, ok = j.NextMember() {
		switch string(key) {
		case "count":
			n, found = ascii.ParseUint(j.Value())
		case "tokenize_response":
			n, found = countElements(&j)
		default:
			j.Skip()
		}
	}
	if !j.End() || !found {
		return dst, ErrNoAnswer
	}
	dst = strconv.AppendInt(append(dst, `{"input_tokens":`...), int64(n), 10)
	return append(dst, '}'), nil
}

// countElements passes a value and returns how many elements it has; false if it is no array.
func countElements(j *openai.JSON) (n int, isArray bool) {
	if j.Kind() != '[' {
		j.Skip()
		return 0, false
	}
	for more := j.FirstElement(); more; more = j.NextElement() {
		j.Skip()
		n++
	}
	return n, true
}
