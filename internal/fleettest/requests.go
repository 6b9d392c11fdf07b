package fleettest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"colonnade/internal/wiretest"
)

// ChatPath is the path of chat completions at either listener.
const ChatPath = "/v1/chat/completions"

// QueueEventsHeader is the header, name and value, that asks for queue events.
var QueueEventsHeader = []string{"x-colonnade-queue-events", "1"}

// ChatBody is a chat completion of so many tokens from the demo's model.
func ChatBody(tokens int, stream bool) string {
	return fmt.Sprintf(`{"model":"demo-chat","stream":%v,"max_tokens":%d,"messages":[{"role":"user","content":"hello"}]}`, stream, tokens)
}

// AlternatingBodies returns the bodies of short plain requests and short streams in turn.
func AlternatingBodies(model string) func(n int) string {
	return func(n int) string {
		return fmt.Sprintf(`{"model":%q,"stream":%v,"max_tokens":%d,"messages":[]}`, model, n%2 == 0, 1+n%12)
	}
}

// Chat posts a chat completion through Client and reads the whole response. headers are names and values in turn.
func (f *Fleet) Chat(body string, headers ...string) wiretest.Response {
	f.T.Helper()
	a, err := f.Post(context.Background(), "/chat/completions", body, headers...)
	if err != nil {
		f.T.Errorf("chat: %v", err)
	}
	return a
}

// Post sends a JSON body to a path below the base URL through Client and reads the whole response.
func (f *Fleet) Post(ctx context.Context, path, body string, headers ...string) (wiretest.Response, error) {
	r, err := f.Open(ctx, path, body, headers...)
	if err != nil {
		return wiretest.Response{}, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return wiretest.Response{Status: r.StatusCode, Header: r.Header, Body: string(text), Err: err}, nil
}

// Open sends a JSON body and returns the response once its head is there. The caller closes its body.
func (f *Fleet) Open(ctx context.Context, path, body string, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL()+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if f.Key != "" {
		r.Header.Set("Authorization", "Bearer "+f.Key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return f.Client.Do(r)
}

// BeginChat sends a chat completion over a connection of its own. lines are further header lines.
func (f *Fleet) BeginChat(body string, lines ...string) *wiretest.Conn {
	f.T.Helper()
	c := wiretest.Dial(f.T, f.Entry.Address)
	c.Post(ChatPath, body, lines...)
	return c
}

// RawChat is BeginChat, and reads the whole response.
func (f *Fleet) RawChat(body string, lines ...string) wiretest.Response {
	f.T.Helper()
	c := f.BeginChat(body, lines...)
	defer c.Close()
	return c.Read()
}

// LongStream begins a stream of 200 tokens, and waits for the first bytes.
func (f *Fleet) LongStream(model string, lines ...string) *wiretest.Conn {
	f.T.Helper()
	c := f.BeginChat(fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":200,"messages":[]}`, model), lines...)
	if _, err := c.R.Peek(1); err != nil {
		f.T.Fatal(err)
	}
	return c
}
