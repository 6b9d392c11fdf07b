package simengine

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// ollamaBody is a request of Ollama's own paths (api/types.go). An answer is streamed unless the request says otherwise.
type ollamaBody struct {
	Model    string `json:"model"`
	Messages any    `json:"messages"`
	System   string `json:"system"`
	Prompt   string `json:"prompt"`
	Suffix   string `json:"suffix"`
	Input    any    `json:"input"`
	Stream   *bool  `json:"stream"`
	Tools    []any  `json:"tools"`
	Options  struct {
		NumPredict *int `json:"num_predict"`
	} `json:"options"`
	Dimensions int `json:"dimensions"`
}

func (b *ollamaBody) call() (*call, error) {
	c := &call{model: b.Model, stream: b.Stream == nil || *b.Stream, options: options{dimensions: b.Dimensions}}
	if n := b.Options.NumPredict; n != nil && *n > 0 { // less means no limit
		c.limit = *n
	}
	if b.Input != nil {
		c.inputs = inputsOf(b.Input)
	}
	for _, v := range []any{b.System, b.Messages, b.Suffix, b.Prompt, b.Input} {
		if v != "" {
			c.prompt.add(v)
		}
	}
	c.tool = toolOf(b.Tools, c.prompt.last)
	return c, nil
}

// ollamaChat is /api/chat.
func ollamaChat(e *Engine, c *call) answer {
	if c.tool != nil {
		t := text{tokens: []string{c.tool.arguments}} // Ollama sends a call in one piece
		return ollamaText(t, c, func(said string) (string, any) { return "message", c.tool.ollamaMessage(c.id, said) })
	}
	return ollamaText(e.generate(c), c, func(said string) (string, any) { return "message", object{"role": "assistant", "content": said} })
}

// ollamaComplete is /api/generate with a prompt.
func ollamaComplete(e *Engine, c *call) answer {
	return ollamaText(e.generate(c), c, func(said string) (string, any) { return "response", said })
}

// ollamaText is a text in lines: each is an object with a piece of it in a field, the last one has no piece and is done.
func ollamaText(t text, c *call, piece func(string) (field string, value any)) answer {
	line := func(said string) object {
		field, value := piece(said)
		return object{"model": c.model, "created_at": time.Now().UTC().Format(time.RFC3339Nano), field: value, "done": false}
	}
	done := func(said string) []byte {
		last := line(said)
		last["done"], last["done_reason"] = true, t.reason()
		last["total_duration"], last["load_duration"] = 5_000_000, 1_000_000
		last["prompt_eval_count"], last["prompt_eval_duration"] = c.prompt.tokens, 1_000_000
		last["eval_count"], last["eval_duration"] = len(t.tokens), 3_000_000
		return marshal(last)
	}
	return answer{
		tokens: len(t.tokens), big: t.big, wholeType: "application/json; charset=utf-8", whole: func() []byte { return done(t.String()) },
		streamed: c.stream, streamType: lineStream,
		token: func(dst []byte, i int) []byte { return append(append(dst, marshal(line(t.tokens[i]))...), '\n') },
		end:   append(done(""), '\n'),
		fail:  func(dst []byte, f failPoint) []byte { return append(append(dst, second(ollamaWords(f.err))...), '\n') },
	}
}

// ollamaEmbed is /api/embed.
func ollamaEmbed(_ *Engine, c *call) answer {
	vectors := [][]float32{}
	for _, in := range c.inputs {
		vectors = append(vectors, vector(in.last, c.vectorLength()))
	}
	return wholeAnswer(object{"model": c.model, "embeddings": vectors, "total_duration": 5_000_000, "load_duration": 1_000_000,
		"prompt_eval_count": c.prompt.tokens})
}

// ollamaEmbedding is /api/embeddings, which has no usage.
func ollamaEmbedding(_ *Engine, c *call) answer {
	return wholeAnswer(object{"embedding": vector(c.prompt.last, c.vectorLength())})
}

// ollamaGenerateOrLoad is /api/generate, which loads a model if there is no prompt.
func (e *Engine) ollamaGenerateOrLoad(generate http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := readBody(r)
		if err != nil {
			(&job{w: w, words: ollamaWords}).refuse(err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var asked struct {
			Prompt string `json:"prompt"`
		}
		if json.Unmarshal(body, &asked) == nil && asked.Prompt == "" {
			e.ollamaGenerate(w, r)
			return
		}
		generate(w, r)
	}
}
