package openai

import "bytes"

// MaxPrompt is how many bytes of a body are read for its prompt.
const MaxPrompt = 1 << 20

// Prompt is where the prompt stands in a body: the texts that an engine reads, in the order in which it is likely to read them. Two turns
// of a conversation have the same beginning, as far as their clients write it in the same way. Members cache_control are left out, since
// they move from message to message, and contents that consist of texts are those texts, however they are split.
type Prompt struct {
	body  []byte
	fixed [4]span // tools, functions, the system prompt and instructions
	main  span    // the messages, the input or the prompt
}

const systemField = 2 // in Prompt.fixed

// mainFields are the members that have a prompt, in the order in which one is taken.
var mainFields = [...]string{"messages", "input", "prompt", "inputs", "input_ids", "query", "contents"}

// ReadPrompt finds the prompt in the first MaxPrompt bytes of a body that has passed Peek. A body that is no JSON object, or has no member
// of a prompt, is a prompt as a whole.
func ReadPrompt(body []byte) Prompt {
	cut := len(body) > MaxPrompt
	body = body[:min(len(body), MaxPrompt)]
	p := Prompt{body: body, main: span{0, len(body)}}
	s, found := scan{b: body, lax: true}, len(mainFields)
	if s.space() != '{' {
		return p
	}
	for key, ok := s.firstMember(); ok; key, ok = s.nextMember() {
		name := string(key)
		s.space()
		from := s.i
		value, whole := span{from, len(body)}, s.skip()
		if whole {
			value.to = s.i
		} else if !cut {
			return Prompt{body: body, main: span{0, len(body)}}
		}
		switch name {
		case "tools":
			p.fixed[0] = value
		case "functions":
			p.fixed[1] = value
		case "system":
			p.fixed[systemField] = value
		case "instructions":
			p.fixed[3] = value
		}
		for i, field := range mainFields[:found] {
			if name == field {
				p.main, found = value, i
			}
		}
		if !whole {
			break
		}
	}
	return p
}

// Text passes the prompt to write piece by piece, until that returns false.
func (p *Prompt) Text(write func(text []byte) (more bool)) { p.write(promptWriter{write: write}, -1) }

// Beginning passes the beginning of a conversation to write: what comes before its messages, and these up to so many of the user's; all
// of a prompt that has no messages.
func (p *Prompt) Beginning(messages int, write func(text []byte)) {
	p.write(promptWriter{write: func(text []byte) bool { write(text); return true }}, max(messages, 0))
}

// write passes the prompt, with so many messages of the user; negative: all.
func (p *Prompt) write(w promptWriter, messages int) {
	for i, part := range p.fixed {
		s := scan{b: p.body[part.from:part.to], lax: true}
		switch c := s.space(); {
		case i == systemField && c == '[':
			w.content(&s, 0)
		case c == '[':
			w.list(&s)
		default:
			w.put(s.b)
		}
		if !w.flush() {
			return
		}
	}
	main := p.body[p.main.from:p.main.to]
	s := scan{b: main, lax: true}
	switch s.space() {
	case '[':
		w.messages(&s, messages)
	case '"':
		// Without the quotes, since a longer prompt goes on where this one ends.
		w.put(bytes.TrimSuffix(main[s.i+1:], []byte{'"'}))
	default:
		w.put(main)
	}
	w.flush()
}

// isUser reports whether a message is the user's.
func isUser(message []byte) bool {
	s := scan{b: message, lax: true}
	for key, ok := s.firstMember(); ok; key, ok = s.nextMember() {
		isRole := string(key) == "role"
		s.space()
		from := s.i
		if !s.skip() {
			return false
		}
		if isRole {
			return string(message[from:s.i]) == `"user"`
		}
	}
	return false
}
