package messages

import (
	"errors"
	"strconv"

	"colonnade/openai"
)

// ErrNoAnswer is returned for a body that is not the answer of a chat.
var ErrNoAnswer = errors.New("messages: the engine's answer has no choice of a chat")

// invalidJSON is the member that holds the input of a tool that is not a JSON object. Anthropic advises this name:
// https://platform.claude.com/docs/en/agents-and-tools/tool-use/fine-grained-tool-streaming
const invalidJSON = "INVALID_JSON"

// unsigned is the signature of thinking: engines sign nothing, and some clients drop thinking without a signature.
const unsigned = "unsigned"

// Response appends the answer of /v1/messages that says the same as body, which is one of /v1/chat/completions.
func Response(dst, body []byte, a *Asked) ([]byte, error) {
	var id, model []byte
	var c choice
	j := openai.NewJSON(body, true)
	found := false
	for key, ok := j.FirstMember(); ok; key, ok = j.NextMember() {
		switch string(key) {
		case "id":
			id = j.Value()
		case "model":
			model = j.Value()
		case "choices":
			found = c.first(&j)
		default:
			j.Skip()
		}
	}
	if !j.End() || !found {
		return dst, ErrNoAnswer
	}
	dst = appendID(append(dst, `{"id":`...), id)
	dst = append(dst, `,"type":"message","role":"assistant","model":`...)
	dst = appendStringOr(dst, model, "")
	var end ending
	end.note(&c)
	dst = appendContent(append(dst, `,"content":[`...), &c.part, a, &end)
	dst = end.append(append(dst, "],"...), a)
	usage, _ := openai.BodyUsage(openai.Chat, body)
	dst = appendUsage(append(dst, `,"usage":`...), usage)
	return append(dst, '}'), nil
}

// appendContent appends the blocks of a whole answer.
func appendContent(dst []byte, p *part, a *Asked, end *ending) []byte {
	start := len(dst)
	begin := func(opening string) {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(dst, opening...)
	}
	if isText(p.reasoning) && a.ShowThinking {
		begin(`{"type":"thinking","thinking":`)
		dst = append(append(dst, p.reasoning...), `,"signature":"`+unsigned+`"}`...)
	}
	for _, raw := range [][]byte{textOf(p.content), p.refusal} {
		if isText(raw) {
			begin(`{"type":"text","text":`)
			dst = append(append(dst, raw...), '}')
		}
	}
	n := 0
	eachCall(p.calls, func(c *call) {
		begin(`{"type":"tool_use","id":`)
		dst = appendStringOr(dst, c.id, "toolu_"+strconv.Itoa(n))
		dst = appendStringOr(append(dst, `,"name":`...), c.name, "")
		dst = appendInput(append(dst, `,"input":`...), c.arguments)
		dst = append(dst, '}')
		n++
	})
	end.called = n > 0
	return dst
}

// textOf returns a content as one raw string. Few engines send an array of parts.
func textOf(raw []byte) []byte {
	if len(raw) == 0 || raw[0] != '[' {
		return raw
	}
	out := []byte{'"'}
	j := openai.NewJSON(raw, true)
	for more := j.FirstElement(); more; more = j.NextElement() {
		if j.Kind() != '{' {
			j.Skip()
			continue
		}
		for key, ok := j.FirstMember(); ok; key, ok = j.NextMember() {
			is := string(key) == "text"
			if inside, quoted := openai.Unquoted(j.Value()); is && quoted {
				out = append(out, inside...)
			}
		}
	}
	return append(out, '"')
}

// appendInput appends the input of a tool, which is an object, from the arguments of a call, which are one in a string.
func appendInput(dst, arguments []byte) []byte {
	object := arguments
	if text := openai.Unescaped(arguments); text != nil {
		object = text
	}
	j := openai.NewJSON(object, true)
	switch j.Kind() {
	case 0:
		if len(object) == 0 {
			return append(dst, "{}"...)
		}
	case '{':
		if j.Skip() && j.End() {
			return append(dst, object...)
		}
	case 'n':
		if j.Skip() && j.End() {
			return append(dst, "{}"...)
		}
	}
	dst = openai.AppendString(append(dst, `{"`+invalidJSON+`":`...), object)
	return append(dst, '}')
}
