package simengine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
)

const maxBody = 64 << 20

// call is a request of any API.
type call struct {
	id      string // random, without the API's prefix
	model   string
	stream  bool
	usage   bool // stream_options.include_usage
	inputs  []prompt
	prompt  prompt    // all inputs together
	limit   int       // most tokens wanted; 0: no limit given
	cached  int       // cached tokens of a prompt, at most its own
	big     bool      // answer with 50 MiB
	tool    *toolCall // asked for; nil: none
	options options
}

// options are fields of single APIs.
type options struct {
	base64     bool // embeddings: encoding_format
	dimensions int  // embeddings
	bytes      int  // speech: size of the answer, an extension for tests
	sse        bool // speech: stream_format
	format     string
	documents  []string // rerank
	seconds    int      // transcriptions: length of the recording, a second for each KiB
	details    bool     // TGI: with the details of the answer
	batched    bool     // the request had a list of inputs
	tokens     []int    // detokenize
}

func (c *call) cachedTokens() int { return min(c.cached, c.prompt.tokens) }

// payload is the union of the JSON requests of all APIs.
type payload struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           *int   `json:"max_tokens"`
	MaxCompletionTokens *int   `json:"max_completion_tokens"`
	MaxOutputTokens     *int   `json:"max_output_tokens"`
	Messages            any    `json:"messages"`
	Prompt              any    `json:"prompt"`
	Input               any    `json:"input"`
	Query               any    `json:"query"`
	Documents           []any  `json:"documents"`
	EncodingFormat      string `json:"encoding_format"`
	Dimensions          int    `json:"dimensions"`
	StreamFormat        string `json:"stream_format"`
	Bytes               int    `json:"bytes"`
	Tools               []any  `json:"tools"`
}

// reader reads one request to its end. It returns the call, and the bytes read for the record.
type reader func(*http.Request) (*call, []byte, error)

// readBody reads the body to its end, without which net/http does not notice that the client has gone.
func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return body, fmt.Errorf("cannot read the request: %w", err)
	}
	if len(body) > maxBody {
		return nil, apiError{Status: http.StatusRequestEntityTooLarge, Type: "invalid_request_error",
			Code: "request_too_large", Message: fmt.Sprintf("the body has more than %d bytes", maxBody)}
	}
	return body, nil
}

// readAs returns the reader of one dialect, whose bodies are T.
func readAs[T any](understand func(*T) (*call, error)) reader {
	return func(r *http.Request) (*call, []byte, error) {
		body, err := readBody(r)
		if err != nil {
			return nil, body, err
		}
		var b T
		if err := json.Unmarshal(body, &b); err != nil {
			return nil, body, badRequest("", "the body is no JSON request: "+err.Error())
		}
		c, err := understand(&b)
		if c != nil {
			c.id = newID()
		}
		return c, body, err
	}
}

// readJSON reads a request of OpenAI's dialect.
func readJSON(r *http.Request) (*call, []byte, error) { return readAs((*payload).call)(r) }

// wanted sets the most tokens wanted, unless the request says nothing of them.
func (c *call) wanted(name string, limit *int) error {
	if limit == nil {
		return nil
	}
	if *limit < 1 {
		return badRequest(name, name+": "+strconv.Itoa(*limit)+": must be at least 1")
	}
	c.limit = *limit
	return nil
}

// readOldJSON is readJSON for kinds of engines that do not know max_completion_tokens: Ollama (openai/openai.go) and TGI (router/src/lib.rs).
func readOldJSON(r *http.Request) (*call, []byte, error) {
	return readAs(func(p *payload) (*call, error) {
		p.MaxCompletionTokens = nil
		return p.call()
	})(r)
}

func (p *payload) call() (*call, error) {
	c := &call{
		model: p.Model, stream: p.Stream, usage: p.StreamOptions.IncludeUsage,
		options: options{base64: p.EncodingFormat == "base64", dimensions: p.Dimensions,
			bytes: p.Bytes, sse: p.StreamFormat == "sse", documents: textsOf(p.Documents)},
	}
	for name, limit := range map[string]*int{
		"max_tokens": p.MaxTokens, "max_completion_tokens": p.MaxCompletionTokens, "max_output_tokens": p.MaxOutputTokens,
	} {
		if err := c.wanted(name, limit); err != nil {
			return nil, err
		}
	}
	c.inputs = inputsOf(p.Input)
	for _, v := range []any{p.Messages, p.Prompt, p.Input, p.Query} {
		c.prompt.add(v)
	}
	c.tool = toolOf(p.Tools, c.prompt.last)
	return c, nil
}

// readForm reads a multipart request with a file.
func readForm(r *http.Request) (*call, []byte, error) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || params["boundary"] == "" {
		return nil, nil, badRequest("", "the Content-Type must be multipart/form-data with a boundary")
	}
	c := &call{id: newID()}
	form := multipart.NewReader(io.LimitReader(r.Body, maxBody), params["boundary"])
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = c.readPart(part)
		}
		if err != nil {
			return nil, nil, badRequest("", "the body is no multipart form: "+err.Error())
		}
	}
	// The rest after the last boundary must be read too: see readJSON.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, nil, fmt.Errorf("cannot read the request: %w", err)
	}
	return c, nil, nil
}

func (c *call) readPart(p *multipart.Part) error {
	if p.FileName() != "" {
		n, err := io.Copy(io.Discard, p)
		c.prompt.tokens += int(n / 1024)
		c.options.seconds += int(n / 1024)
		return err
	}
	v, err := io.ReadAll(io.LimitReader(p, 64<<10))
	switch p.FormName() {
	case "model":
		c.model = string(v)
	case "stream":
		c.stream = string(v) == "true"
	case "response_format":
		c.options.format = string(v)
	case "prompt":
		c.prompt.add(string(v))
	}
	return err
}

// prompt summarises a request's text.
type prompt struct {
	tokens int    // its words
	last   string // its last string
	parts  []any  // all strings and token numbers, in order
}

// add adds a prompt as JSON: a string, token numbers, messages, parts of messages, or lists of these.
func (p *prompt) add(v any) {
	switch v := v.(type) {
	case string:
		p.tokens += len(strings.Fields(v))
		p.last = v
		p.parts = append(p.parts, v)
	case float64:
		p.tokens++
		p.parts = append(p.parts, v)
	case []any:
		for _, e := range v {
			p.add(e)
		}
	case map[string]any:
		p.add(v["content"])
		p.add(v["text"])
	}
}

// inputsOf splits the input of an embeddings request: a string, a list of
// strings, one list of tokens, or several.
func inputsOf(v any) []prompt {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if len(list) > 0 {
		if _, tokens := list[0].(float64); tokens {
			list = []any{v}
		}
	}
	all := make([]prompt, len(list))
	for i, in := range list {
		all[i].add(in)
		if all[i].last == "" {
			all[i].last = fmt.Sprint(in)
		}
	}
	return all
}
