package messages

import "colonnade/openai"

// turn gathers the messages of one role in a row. Chat has them as one message, before which those of tools stand.
type turn struct {
	role      string
	tools     []byte // messages of the role tool
	text      []byte // texts joined, as the inside of a JSON string, until the first image
	hasText   bool
	parts     []byte // texts and images, from the first image on
	reasoning []byte // as the inside of a JSON string
	thought   bool
	calls     []byte // elements of tool_calls
}

// addText adds the inside of a JSON string.
func (u *turn) addText(inside []byte) {
	if len(u.parts) > 0 {
		u.addPart(inside)
		return
	}
	u.text = joined(u.text, inside, u.hasText)
	u.hasText = true
}

// joined appends text to other text on a line of its own.
func joined(dst, inside []byte, further bool) []byte {
	if further {
		dst = append(dst, `\n`...)
	}
	return append(dst, inside...)
}

func (u *turn) addPart(inside []byte) {
	u.parts = separated(u.parts)
	u.parts = append(u.parts, `{"type":"text","text":"`...)
	u.parts = append(append(u.parts, inside...), `"}`...)
}

// addImage adds an image by the pieces of its URL, each the inside of a JSON string.
func (u *turn) addImage(url ...[]byte) {
	if u.hasText {
		u.addPart(u.text)
		u.text, u.hasText = u.text[:0], false
	}
	u.parts = separated(u.parts)
	u.parts = append(u.parts, `{"type":"image_url","image_url":{"url":"`...)
	for _, piece := range url {
		u.parts = append(u.parts, piece...)
	}
	u.parts = append(u.parts, `"}}`...)
}

func (u *turn) think(inside []byte) {
	u.reasoning = joined(u.reasoning, inside, u.thought)
	u.thought = true
}

// addCall adds a call of a tool by raw values.
func (u *turn) addCall(id, name, input []byte) {
	u.calls = separated(u.calls)
	u.calls = append(append(u.calls, `{"id":`...), id...)
	u.calls = append(append(u.calls, `,"type":"function","function":{"name":`...), name...)
	u.calls = openai.AppendString(append(u.calls, `,"arguments":`...), input)
	u.calls = append(u.calls, "}}"...)
}

// addResult adds the result of a tool: the raw id of its call, and the inside of a JSON string.
func (u *turn) addResult(id, content []byte) {
	u.tools = separated(u.tools)
	u.tools = append(append(u.tools, `{"role":"tool","tool_call_id":`...), id...)
	u.tools = append(append(u.tools, `,"content":"`...), content...)
	u.tools = append(u.tools, `"}`...)
}

func separated(list []byte) []byte {
	if len(list) > 0 {
		list = append(list, ',')
	}
	return list
}

// append appends the messages of the turn.
func (u *turn) append(dst []byte) []byte {
	dst = append(dst, u.tools...)
	hasContent := u.hasText || len(u.parts) > 0
	if len(u.tools) > 0 {
		if !hasContent {
			return dst
		}
		dst = append(dst, ',')
	}
	dst = append(append(append(dst, `{"role":"`...), u.role...), '"')
	switch {
	case len(u.parts) > 0:
		dst = append(append(append(dst, `,"content":[`...), u.parts...), ']')
	case u.hasText || len(u.calls) == 0:
		dst = append(append(append(dst, `,"content":"`...), u.text...), '"')
	}
	if u.thought {
		dst = append(append(append(dst, `,"reasoning_content":"`...), u.reasoning...), '"')
	}
	if len(u.calls) > 0 {
		dst = append(append(append(dst, `,"tool_calls":[`...), u.calls...), ']')
	}
	return append(dst, '}')
}

// reset begins the next turn, in the same memory.
func (u *turn) reset(role string) {
	*u = turn{role: role, tools: u.tools[:0], text: u.text[:0], parts: u.parts[:0], reasoning: u.reasoning[:0], calls: u.calls[:0]}
}
