package simengine

// responseAnswer is the object of /v1/responses, with the fields that SDKs require.
type responseAnswer struct {
	ID                string         `json:"id"`
	Object            string         `json:"object"`
	CreatedAt         int64          `json:"created_at"`
	Status            string         `json:"status"`
	Error             any            `json:"error"`
	IncompleteDetails any            `json:"incomplete_details"`
	Instructions      any            `json:"instructions"`
	Metadata          struct{}       `json:"metadata"`
	Model             string         `json:"model"`
	Output            []responseItem `json:"output"`
	ParallelToolCalls bool           `json:"parallel_tool_calls"`
	Temperature       float64        `json:"temperature"`
	ToolChoice        string         `json:"tool_choice"`
	Tools             []any          `json:"tools"`
	TopP              float64        `json:"top_p"`
	Usage             *responseUsage `json:"usage"`
}

type responseItem struct {
	ID      string         `json:"id"`
	Type    string         `json:"type"`
	Status  string         `json:"status"`
	Role    string         `json:"role"`
	Content []responsePart `json:"content"`
}

type responsePart struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Annotations []any  `json:"annotations"`
	Logprobs    []any  `json:"logprobs"`
}

type responseUsage struct {
	InputTokens   int `json:"input_tokens"`
	InputDetails  any `json:"input_tokens_details"`
	OutputTokens  int `json:"output_tokens"`
	OutputDetails any `json:"output_tokens_details"`
	TotalTokens   int `json:"total_tokens"`
}

func (c *call) responseUsageOf(output int) *responseUsage {
	return &responseUsage{
		InputTokens: c.prompt.tokens, InputDetails: struct {
			CachedTokens int `json:"cached_tokens"`
		}{c.cachedTokens()},
		OutputTokens: output, OutputDetails: struct {
			ReasoningTokens int `json:"reasoning_tokens"`
		}{},
		TotalTokens: c.prompt.tokens + output,
	}
}

// responseEvent is the union of the events of a response stream.
type responseEvent struct {
	Type           string          `json:"type"`
	SequenceNumber int             `json:"sequence_number"`
	Response       *responseAnswer `json:"response,omitempty"`
	ItemID         string          `json:"item_id,omitempty"`
	OutputIndex    *int            `json:"output_index,omitempty"`
	ContentIndex   *int            `json:"content_index,omitempty"`
	Item           *responseItem   `json:"item,omitempty"`
	Part           *responsePart   `json:"part,omitempty"`
	Delta          *string         `json:"delta,omitempty"`
	Text           *string         `json:"text,omitempty"`
	Logprobs       *[]any          `json:"logprobs,omitempty"`
}

// response is /v1/responses.
func response(e *Engine, c *call) answer {
	t := e.generate(c)
	r := responder{id: "msg_" + c.id, text: t, started: responseAnswer{
		ID: "resp_" + c.id, Object: "response", CreatedAt: e.now(), Status: "in_progress", Model: c.model,
		Output: []responseItem{}, ParallelToolCalls: true, Temperature: 1, ToolChoice: "auto", Tools: []any{}, TopP: 1,
	}}
	r.ended = r.started
	r.ended.Status, r.ended.Usage = "completed", c.responseUsageOf(len(t.tokens))
	r.ended.Output = []responseItem{r.item("completed", r.part(t.String()))}
	if t.cut {
		r.ended.Status = "incomplete"
		r.ended.IncompleteDetails = map[string]string{"reason": "max_output_tokens"}
	}
	a := t.answer(func() []byte { return marshal(r.ended) })
	a.streamed = c.stream
	a.open, a.token, a.fail, a.afterFail = r.open(), r.token, r.fail, nil
	a.tail, a.end = r.tail()
	return a
}

// responder makes the events of one response of one message.
type responder struct {
	id             string // of the message
	text           text
	started, ended responseAnswer
}

func (r *responder) item(status string, content ...responsePart) responseItem {
	if content == nil {
		content = []responsePart{}
	}
	return responseItem{ID: r.id, Type: "message", Status: status, Role: "assistant", Content: content}
}

func (r *responder) part(said string) responsePart {
	return responsePart{Type: "output_text", Text: said, Annotations: []any{}, Logprobs: []any{}}
}

// openEvents is the number of events before the first delta.
const openEvents = 4

func (r *responder) open() []byte {
	item, part, at := r.item("in_progress"), r.part(""), 0
	dst := named(nil, responseEvent{Type: "response.created", SequenceNumber: 0, Response: &r.started})
	dst = named(dst, responseEvent{Type: "response.in_progress", SequenceNumber: 1, Response: &r.started})
	dst = named(dst, responseEvent{Type: "response.output_item.added", SequenceNumber: 2, OutputIndex: &at, Item: &item})
	return named(dst, responseEvent{Type: "response.content_part.added", SequenceNumber: 3,
		ItemID: r.id, OutputIndex: &at, ContentIndex: &at, Part: &part})
}

func (r *responder) token(dst []byte, i int) []byte {
	at := 0
	return named(dst, responseEvent{Type: "response.output_text.delta", SequenceNumber: openEvents + i,
		ItemID: r.id, OutputIndex: &at, ContentIndex: &at, Delta: &r.text.tokens[i], Logprobs: &[]any{}})
}

func (r *responder) tail() (tail, end []byte) {
	n, at := openEvents+len(r.text.tokens), 0
	item := r.ended.Output[0]
	part := item.Content[0]
	tail = named(nil, responseEvent{Type: "response.output_text.done", SequenceNumber: n,
		ItemID: r.id, OutputIndex: &at, ContentIndex: &at, Text: &part.Text, Logprobs: &[]any{}})
	tail = named(tail, responseEvent{Type: "response.content_part.done", SequenceNumber: n + 1,
		ItemID: r.id, OutputIndex: &at, ContentIndex: &at, Part: &part})
	tail = named(tail, responseEvent{Type: "response.output_item.done", SequenceNumber: n + 2, OutputIndex: &at, Item: &item})
	end = named(nil, responseEvent{Type: "response." + r.ended.Status, SequenceNumber: n + 3, Response: &r.ended})
	return tail, end
}

// fail is this API's error event, which is a proper end of its own. In mid-stream its codes are those of the API, and
// SDKs check that they are strings.
func (r *responder) fail(dst []byte, f failPoint) []byte {
	n := f.tokens
	if f.opened {
		n += openEvents
		f.err.Code = "server_error"
	}
	return namedData(dst, "error", marshal(struct {
		Type           string `json:"type"`
		SequenceNumber int    `json:"sequence_number"`
		Code           any    `json:"code"`
		Message        string `json:"message"`
		Param          any    `json:"param"`
	}{"error", n, f.err.Code, f.err.Message, nil}))
}

// named appends an SSE event that has its type as the event's name too.
func named(dst []byte, ev responseEvent) []byte { return namedData(dst, ev.Type, marshal(ev)) }

func namedData(dst []byte, name string, data []byte) []byte {
	dst = append(append(dst, "event: "...), name...)
	return event(append(dst, '\n'), data)
}
