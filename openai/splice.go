package openai

import "bytes"

// Edit describes the differences between the client's body and the one that the engine gets.
type Edit struct {
	Model    string // "" = unchanged
	AskUsage bool   // ask for usage in a stream whose client did not; see Body.CanAskUsage
	// MaxTokens says the bound of a chat as max_tokens too, if the client has only said it as max_completion_tokens: see [ReadsMaxTokens].
	MaxTokens bool
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
	return !same || e.AskUsage && b.CanAskUsage() || e.MaxTokens && b.lacksMaxTokens()
}

// Splice appends the body with e applied to it; all other bytes stay as they are. body must be the one that was peeked,
// and e.Model a name that the fleet accepts.
func (b *Body) Splice(dst, body []byte, e Edit) []byte {
	if e.Model != "" && b.model == (span{}) {
		return b.insertModel(dst, body, e.Model)
	}
	var memory [2]change
	changes := memory[:0]
	if e.AskUsage && b.CanAskUsage() {
		changes = append(changes, b.askUsage())
	}
	if e.MaxTokens && b.lacksMaxTokens() {
		changes = append(changes, b.sayMaxTokens(body))
	}
	if len(changes) == 2 && changes[1].at.from < changes[0].at.from {
		changes[0], changes[1] = changes[1], changes[0]
	}
	at, renamed := 0, e.Model == ""
	for _, c := range changes {
		if !renamed && b.model.from < c.at.from {
			dst = b.appendModel(append(dst, body[at:b.model.from]...), e.Model)
			at, renamed = b.model.to, true
		}
		dst = append(append(dst, body[at:c.at.from]...), c.text...)
		at = c.at.to
	}
	if !renamed {
		dst = b.appendModel(append(dst, body[at:b.model.from]...), e.Model)
		at = b.model.to
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
	case b.optionsAre == nullValue:
		return change{b.options, `{"include_usage":true}`}
	case b.optionsAre == emptyValue:
		return change{span{at + 1, at + 1}, `"include_usage":true`}
	default:
		return change{span{at + 1, at + 1}, `"include_usage":true,`}
	}
}

// lacksMaxTokens reports whether the most tokens of an answer stand in max_completion_tokens only, as a number.
func (b *Body) lacksMaxTokens() bool { return b.mostTokens != span{} && !b.saysMaxTokens }

// sayMaxTokens is the change that adds max_tokens, with the number of max_completion_tokens. The body has a model, as in askUsage.
func (b *Body) sayMaxTokens(body []byte) change {
	number := string(body[b.mostTokens.from:b.mostTokens.to])
	if b.nullMaxTokens != (span{}) {
		return change{b.nullMaxTokens, number}
	}
	return change{span{b.end, b.end}, `,"max_tokens":` + number}
}
