// Command go checks that github.com/openai/openai-go reads streams with queue events like any others: see ../README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
)

const (
	said  = "echo: one two three"
	heard = "one two three"
)

func main() {
	queued, busy := os.Getenv("COLONNADE_QUEUED_MODEL"), os.Getenv("COLONNADE_BUSY_MODEL")
	client := openai.NewClient(option.WithBaseURL(os.Getenv("COLONNADE_BASE_URL")), option.WithAPIKey(os.Getenv("COLONNADE_API_KEY")),
		option.WithMaxRetries(0), option.WithHeader("x-colonnade-queue-events", "1"))
	ctx, failed := context.Background(), false
	check := func(name string, err error) {
		if err != nil {
			fmt.Printf("FAILED %s: %v\n", name, err)
			failed = true
			return
		}
		fmt.Println("ok", name)
	}
	chat := func(model string, options ...option.RequestOption) (string, error) {
		stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
			Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(said)},
		}, options...)
		return gather(stream, func(c openai.ChatCompletionChunk) string {
			if len(c.Choices) == 0 {
				return ""
			}
			return c.Choices[0].Delta.Content
		})
	}
	response := func(model string, options ...option.RequestOption) (string, error) {
		stream := client.Responses.NewStreaming(ctx, responses.ResponseNewParams{
			Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(said)},
		}, options...)
		return gather(stream, func(e responses.ResponseStreamEventUnion) string {
			if e.Type != "response.output_text.delta" {
				return ""
			}
			return e.Delta
		})
	}
	check("go chat waits", together(func() (string, error) { return chat(queued) }))
	check("go responses wait", together(func() (string, error) { return response(queued) }))
	never := option.WithHeader("x-colonnade-queue", "never")
	_, err := chat(busy, never)
	check("go chat is refused", refused(err))
	_, err = response(busy, never)
	check("go responses are refused", refused(err))
	if failed {
		os.Exit(1)
	}
}

func gather[T any](stream *ssestream.Stream[T], text func(T) string) (string, error) {
	defer stream.Close()
	var all strings.Builder
	for stream.Next() {
		all.WriteString(text(stream.Current()))
	}
	return all.String(), stream.Err()
}

// together makes the same request four times at once.
func together(ask func() (string, error)) error {
	var all sync.WaitGroup
	errs := make([]error, 4)
	for n := range errs {
		all.Go(func() {
			got, err := ask()
			if errs[n] = err; err == nil && strings.TrimSpace(got) != heard {
				errs[n] = fmt.Errorf("got %q, want %q", got, heard)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// refused expects the error event of a model without room.
func refused(err error) error {
	var refusal *ssestream.StreamError
	if !errors.As(err, &refusal) {
		return fmt.Errorf("it ended with %w", err)
	}
	var event struct {
		Error struct {
			Code, Reason string
			RetryAfterMS int `json:"retry_after_ms"`
		}
	}
	if err := json.Unmarshal(refusal.Event.Data, &event); err != nil {
		return err
	}
	if e := event.Error; e.Code != "out_of_capacity" || e.Reason != "busy" || e.RetryAfterMS < 1000 {
		return fmt.Errorf("refused with %+v", e)
	}
	return nil
}
