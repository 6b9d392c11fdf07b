package fleettest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"colonnade/internal/wiretest"
)

// BeginChat sends a chat completion over a connection of its own. lines are more header lines.
func (f *Fleet) BeginChat(body string, lines ...string) *wiretest.Conn {
	f.T.Helper()
	w := wiretest.Dial(f.T, f.Entry.Address)
	w.Post("/v1/chat/completions", body, lines...)
	return w
}

// RawChat sends a chat completion like begin and reads the whole answer.
func (f *Fleet) RawChat(body string, lines ...string) wiretest.Response {
	f.T.Helper()
	w := f.BeginChat(body, lines...)
	defer w.Close()
	return w.Read().Response
}

const ChatPath = "/v1/chat/completions"

// Chat posts a chat completion and reads the whole answer.
func (f *Fleet) Chat(body string, headers ...string) wiretest.Response {
	f.T.Helper()
	a, err := f.Post(context.Background(), "/chat/completions", body, headers...)
	if err != nil {
		f.T.Errorf("chat: %v", err)
	}
	return a
}

// Post sends a JSON body with headers (name, value, …) and reads the whole answer.
func (f *Fleet) Post(ctx context.Context, path, body string, headers ...string) (wiretest.Response, error) {
	r, err := f.Open(ctx, path, body, headers...)
	if err != nil {
		return wiretest.Response{}, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return wiretest.Response{Status: r.StatusCode, Header: r.Header, Body: string(text), Err: err}, nil
}

// Open sends a JSON body and returns the answer as it begins. The caller closes its body.
func (f *Fleet) Open(ctx context.Context, path, body string, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL()+path, bytes.NewReader([]byte(body)))
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

// ChatBody is a request for tokens tokens.
func ChatBody(tokens int, stream bool) string {
	return fmt.Sprintf(`{"model":"demo-chat","stream":%v,"max_tokens":%d,"messages":[{"role":"user","content":"hello"}]}`, stream, tokens)
}

// AlternatingBodies are plain requests and streams by turns.
func AlternatingBodies(model string) func(n int) string {
	return func(n int) string {
		return fmt.Sprintf(`{"model":%q,"stream":%v,"max_tokens":%d,"messages":[]}`, model, n%2 == 0, 1+n%12)
	}
}

// LongStream begins a stream that its engine takes a while for, and has read its first token.
func (f *Fleet) LongStream(model string, headers ...string) *wiretest.Conn {
	f.T.Helper()
	w := f.BeginChat(fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":200,"messages":[]}`, model), headers...)
	if _, err := w.R.Peek(1); err != nil {
		f.T.Fatal(err)
	}
	return w
}

// QueueEventsHeader asks for queue events.
var QueueEventsHeader = []string{"x-colonnade-queue-events", "1"}
