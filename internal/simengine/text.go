package simengine

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// vocabulary is the text of the engine, repeated.
const vocabulary = "every request takes its place in line and waits for a free slot then the batch " +
	"grows by one and words come out at a steady pace until the answer has its length and the slot is free again"

// echoMark begins a prompt that is answered with its own words.
const echoMark = "echo:"

// wideMark begins a prompt whose answer has tokens of as many bytes as the number after the mark, at most widest.
const (
	wideMark = "wide:"
	widest   = 1 << 20
)

// A big answer (FaultBigAnswer) is so many pieces of so many bytes: 50 MiB.
const (
	bigPiece  = 16 << 10
	bigPieces = 50 << 20 / bigPiece
	bigMark   = "{fifty megabytes}" // stands for the text where the whole answer is built
)

// text is the answer to a prompt, as tokens that concatenate to it.
type text struct {
	tokens []string
	cut    bool // shortened by the request's limit
	big    bool
}

// generate returns the text of an answer.
func (e *Engine) generate(c *call) text {
	if c.big {
		return text{tokens: repeated([]string{strings.Repeat("x", bigPiece)}, bigPieces), big: true}
	}
	var t text
	if width := widthOf(c.prompt.last); width > 0 {
		n := cmp.Or(c.limit, e.c.Tokens)
		return text{tokens: repeated([]string{strings.Repeat("x", width)}, min(n, e.c.Tokens)), cut: n < e.c.Tokens}
	}
	if echo, ok := strings.CutPrefix(c.prompt.last, echoMark); ok {
		t.tokens = strings.Fields(echo)
		for i := 1; i < len(t.tokens); i++ {
			t.tokens[i] = " " + t.tokens[i]
		}
	}
	if len(t.tokens) == 0 {
		n := e.c.Tokens
		if c.limit > 0 && c.limit < n {
			n, t.cut = c.limit, true
		}
		t.tokens = saidWords.take(n)
	}
	if c.limit > 0 && c.limit < len(t.tokens) {
		t.tokens, t.cut = t.tokens[:c.limit], true
	}
	return t
}

// saidWords are the tokens of all answers of no particular text, which share them: tests ask for streams of a million tokens.
var saidWords sharedWords

// sharedWords are the words of the vocabulary again and again, each but the first with a space before it.
type sharedWords struct {
	mu  sync.Mutex
	all []string
}

// take returns n words, which must not be changed.
func (w *sharedWords) take(n int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) < n {
		spaced := strings.Fields(vocabulary)
		for i := range spaced {
			spaced[i] = " " + spaced[i]
		}
		w.all = repeated(spaced, n)
		w.all[0] = strings.TrimPrefix(w.all[0], " ")
	}
	return w.all[:n:n]
}

// widthOf returns the number of bytes per token that a prompt asks for; 0 if it does not ask.
func widthOf(prompt string) int {
	said, ok := strings.CutPrefix(prompt, wideMark)
	if !ok {
		return 0
	}
	said, _, _ = strings.Cut(said, " ")
	width, _ := strconv.Atoi(said)
	return min(width, widest)
}

func repeated(words []string, n int) []string {
	return slices.Repeat(words, n/len(words)+1)[:n]
}

func (t text) String() string {
	if t.big {
		return bigMark
	}
	return strings.Join(t.tokens, "")
}

// reason returns OpenAI's name for why the text ended.
func (t text) reason() string {
	if t.cut {
		return "length"
	}
	return "stop"
}

// appendJSON appends s as a JSON string.
func appendJSON(dst []byte, s string) []byte {
	if !needsEscape(s) {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	return append(dst, marshal(s)...)
}

// needsEscape compares bytes and not runes, because wide tokens are long.
func needsEscape(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return true
		}
	}
	return false
}

// marshal encodes a value of this package's own types, which cannot fail.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("simengine: cannot encode an answer: " + err.Error())
	}
	return b
}

func newID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
