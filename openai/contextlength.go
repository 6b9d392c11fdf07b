package openai

import "colonnade/internal/ascii"

// Bounds of what one token of a vocabulary stands for. testdata/tokenizers has what real vocabularies reach: one word and 41 letters and
// digits. A few vocabularies have tokens of several words, of which papers use up to four (https://arxiv.org/abs/2503.13423).
const (
	wordsOfToken   = 4
	lettersOfToken = 128
)

// textMeasure counts what no normalization or template removes from a text: ASCII letters and digits, and words that begin with one
// after white space.
type textMeasure struct{ words, letters int }

func (m *textMeasure) add(text []byte) {
	space := true
	for _, c := range text {
		switch {
		case ascii.IsAlphanumeric(c):
			m.letters++
			if space {
				m.words++
			}
			space = false
		default:
			space = c == ' ' || c == '\n' || c == '\t' || c == '\r'
		}
	}
}

// tokens returns how many tokens the text has at least, whatever the vocabulary is.
func (m textMeasure) tokens() int {
	return max((m.words+wordsOfToken-1)/wordsOfToken, (m.letters+lettersOfToken-1)/lettersOfToken)
}

func (m *textMeasure) join(other textMeasure) {
	m.words += other.words
	m.letters += other.letters
}

// PromptTokensAtLeast returns a lower bound of the tokens of a prompt, of the longest one if the body has several. It is 0 for APIs without
// text, and for bodies that let the engine shorten the prompt. The body must have passed Peek. Text that a template of the model may leave out
// does not count, such as the reasoning in earlier answers.
func PromptTokensAtLeast(api API, body []byte) int {
	switch api {
	case Chat, Completions, Responses, Messages:
	default:
		return 0
	}
	s := promptMeasurer{scan: scan{b: body}}
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		switch name := string(key); { // of a field that occurs twice, the last counts, as engines read it
		case name == "messages" && api != Completions, name == "input" && api == Responses:
			s.conversation = s.messages()
		case name == "system" && api == Messages, name == "instructions" && api == Responses:
			s.system = s.content()
		case name == "prompt" && api == Completions:
			s.conversation, s.most = textMeasure{}, 0
			s.prompts()
		case name == "truncate_prompt_tokens", name == "truncation", name == "truncate":
			s.shortened = s.shortened || !s.at("null") && !s.at(`"disabled"`) && !s.at("false")
			s.skip()
		default:
			s.skip()
		}
	}
	if s.shortened || !s.end() {
		return 0
	}
	s.conversation.join(s.system)
	return max(s.conversation.tokens(), s.most)
}

type promptMeasurer struct {
	scan
	conversation, system textMeasure // which make one prompt together
	most                 int         // tokens of the longest of several prompts
	shortened            bool
}

// messages passes a list of messages, or a text in their place.
func (s *promptMeasurer) messages() (all textMeasure) {
	if s.space() != '[' {
		return s.content()
	}
	for more := s.firstElement(); more; more = s.nextElement() {
		if s.space() != '{' {
			s.skip()
			continue
		}
		var role string
		var content textMeasure
		for key, member := s.firstMember(); member; key, member = s.nextMember() {
			switch string(key) {
			case "role":
				role = string(s.text())
			case "content":
				content = s.content()
			default:
				s.skip()
			}
		}
		if role == "user" || role == "system" || role == "developer" {
			all.join(content)
		}
	}
	return all
}

// content passes a text, or a list of parts with texts.
func (s *promptMeasurer) content() (m textMeasure) {
	switch s.space() {
	case '"':
		m.add(s.text())
		return m
	case '[':
	default:
		s.skip()
		return m
	}
	for more := s.firstElement(); more; more = s.nextElement() {
		if s.space() != '{' {
			s.skip()
			continue
		}
		var part textMeasure
		for key, member := s.firstMember(); member; key, member = s.nextMember() {
			if string(key) == "text" {
				part = textMeasure{}
				part.add(s.text())
			} else {
				s.skip()
			}
		}
		m.join(part)
	}
	return m
}

// prompts passes the prompts of a completion: texts, or lists of tokens, each of which is one.
func (s *promptMeasurer) prompts() {
	if s.space() != '[' {
		s.conversation = s.content()
		return
	}
	tokens := 0
	for more := s.firstElement(); more; more = s.nextElement() {
		switch s.space() {
		case '"':
			var m textMeasure
			m.add(s.text())
			s.most = max(s.most, m.tokens())
		case '[':
			n := 0
			for inner := s.firstElement(); inner; inner = s.nextElement() {
				s.skip()
				n++
			}
			s.most = max(s.most, n)
		default:
			s.skip()
			tokens++
		}
	}
	s.most = max(s.most, tokens)
}
