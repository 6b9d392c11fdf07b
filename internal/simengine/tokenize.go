package simengine

import (
	"strings"
	"sync"
)

// lexicon numbers the words that an engine has tokenized, in the order of their first appearance.
type lexicon struct {
	mu      sync.Mutex // guards the fields below
	numbers map[string]int
	words   []string
}

// maxLexicon bounds the words that are remembered. Further ones share the last number.
const maxLexicon = 1 << 16

func (l *lexicon) number(word string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, ok := l.numbers[word]
	if ok {
		return n
	}
	if len(l.words) >= maxLexicon {
		return maxLexicon - 1
	}
	if l.numbers == nil {
		l.numbers = make(map[string]int)
	}
	n = len(l.words)
	l.numbers[word] = n
	l.words = append(l.words, word)
	return n
}

// text returns the words of these numbers, and nothing for unknown ones.
func (l *lexicon) text(numbers []int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, n := range numbers {
		if n >= 0 && n < len(l.words) {
			b.WriteString(l.words[n])
		}
	}
	return b.String()
}

// wordsOf splits a text before each of its words, so that the words concatenate to it but for the space around it.
func wordsOf(s string) []string {
	all := strings.Fields(s)
	for i := 1; i < len(all); i++ {
		all[i] = " " + all[i]
	}
	return all
}

// tokenizeBody is a request of /tokenize and /detokenize of vLLM, SGLang and llama.cpp, whose fields differ.
type tokenizeBody struct {
	Model    string `json:"model"`
	Prompt   any    `json:"prompt"`   // vLLM, SGLang
	Messages any    `json:"messages"` // vLLM
	Content  any    `json:"content"`  // llama.cpp
	Tokens   any    `json:"tokens"`   // to be put together again
}

func (b *tokenizeBody) call() (*call, error) {
	c := &call{model: b.Model, options: options{tokens: numbersOf(b.Tokens)}}
	for _, v := range []any{b.Prompt, b.Messages, b.Content} {
		c.prompt.add(v)
	}
	return c, nil
}

// tokenize is /tokenize of vLLM, SGLang and llama.cpp.
func tokenize(e *Engine, c *call) answer {
	numbers := []int{}
	for _, word := range wordsOf(c.prompt.last) {
		numbers = append(numbers, e.lexicon.number(word))
	}
	if e.c.Kind == "llamacpp" {
		return wholeAnswer(object{"tokens": numbers})
	}
	out := object{"tokens": numbers, "count": len(numbers), "max_model_len": e.c.MaxModelLen}
	if e.c.Kind == "vllm" {
		out["token_strs"] = nil
	}
	return wholeAnswer(out)
}

// detokenize is /detokenize of vLLM, SGLang and llama.cpp.
func detokenize(e *Engine, c *call) answer {
	field := map[string]string{"sglang": "text", "llamacpp": "content"}[e.c.Kind]
	if field == "" {
		field = "prompt"
	}
	return wholeAnswer(object{field: e.lexicon.text(c.options.tokens)})
}

// numbersOf returns the numbers of a list, or of the first of several lists.
func numbersOf(v any) []int {
	list, _ := v.([]any)
	if len(list) > 0 {
		if inner, ok := list[0].([]any); ok {
			list = inner
		}
	}
	numbers := []int{}
	for _, v := range list {
		if n, ok := v.(float64); ok {
			numbers = append(numbers, int(n))
		}
	}
	return numbers
}

// textsOf returns the texts of a list of strings, or of objects with a text.
func textsOf(list []any) []string {
	texts := make([]string, len(list))
	for i, v := range list {
		var p prompt
		p.add(v)
		texts[i] = p.last
	}
	return texts
}
