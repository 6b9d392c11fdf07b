package openai

import "bytes"

// Edit describes the differences between the client's body and the one that the engine gets.
type Edit struct {
	Model    string // "" = unchanged
	AskUsage bool   // ask for usage in a stream whose client did not; see Body.CanAskUsage
}

// CanAskUsage reports whether an edit with AskUsage changes the body: it is a chat or completion stream whose client
// did not ask for usage. The usage event must then be taken out of the answer again.
func (b *Body) CanAskUsage() bool {
	return b.usage && b.Stream && !b.IncludeUsage && !b.form
}

// change replaces a span by text.
type change struct {
	at   span
	text string
}

// Changes reports whether Splice with e changes the body that was peeked.
func (b *Body) Changes(body []byte, e Edit) bool {
	written := body[b.model.from:b.model.to]
	same := e.Model == "" || b.model != (span{}) && len(written) == len(e.Model)+2 && string(written[1:len(written)-1]) == e.Model
	if b.form {
		same = e.Model == "" || string(written) == e.Model
	}
	return !same || e.AskUsage && b.CanAskUsage()
}

// Splice appends the body with e applied to it; all other bytes stay as they are. body must be the one that was peeked,
// and e.Model a name that the fleet accepts.
func (b *Body) Splice(dst, body []byte, e Edit) []byte {
	var usage change
	if e.AskUsage && b.CanAskUsage() {
		usage = b.askUsage()
	}
	usageFirst := usage.text != "" && usage.at.from < b.model.from
	at := 0
	if usageFirst {
		dst = append(append(dst, body[:usage.at.from]...), usage.text...)
		at = usage.at.to
	}
	if e.Model != "" && b.model == (span{}) {
		return b.insertModel(dst, body, e.Model)
	}
	if e.Model != "" {
		dst = b.appendModel(append(dst, body[at:b.model.from]...), e.Model)
		at = b.model.to
	}
	if usage.text != "" && !usageFirst {
		dst = append(append(dst, body[at:usage.at.from]...), usage.text...)
		at = usage.at.to
	}
	return append(dst, body[at:]...)
}

// insertModel appends a body without a model, with one as its first member. Such a body has no usage to ask for.
func (b *Body) insertModel(dst, body []byte, model string) []byte {
	dst = append(append(dst, body[:b.begin]...), `"model":`...)
	dst = appendString(dst, model)
	if len(bytes.TrimLeft(body[b.begin:b.end], " \t\r\n")) > 0 {
		dst = append(dst, ',')
	}
	return append(dst, body[b.begin:]...)
}

func (b *Body) appendModel(dst []byte, model string) []byte {
	if b.form {
		return append(dst, model...)
	}
	return appendString(dst, model)
}

// askUsage is the smallest change that makes include_usage true. The body has a model, so a new member follows another.
func (b *Body) askUsage() change {
	switch at := b.options.from; {
	case b.include != span{}:
		return change{b.include, "true"}
	case b.options == span{}:
		return change{span{b.end, b.end}, `,"stream_options":{"include_usage":true}`}
	case b.null:
		return change{b.options, `{"include_usage":true}`}
	case b.empty:
		return change{span{at + 1, at + 1}, `"include_usage":true`}
	default:
		return change{span{at + 1, at + 1}, `"include_usage":true,`}
	}
}
