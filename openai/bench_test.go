package openai_test

import (
	"bytes"
	"strings"
	"testing"

	"colonnade/openai"
)

// chatBody returns a chat request of about size bytes.
func chatBody(size int) []byte {
	head := `{"model":"llama-3.1-8b-instruct","stream":true,"temperature":0.7,"max_tokens":256,"messages":[` +
		`{"role":"system","content":"You are a helpful assistant.\nAnswer briefly."},{"role":"user","content":"`
	tail := `"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"x":{"type":"number"}}}}}]}`
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", size/45+1)
	return []byte(head + text[:max(0, size-len(head)-len(tail))] + tail)
}

const chatChunk = `data: {"id":"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT","object":"chat.completion.chunk","created":1741569952,` +
	`"model":"meta-llama/Llama-3.1-8B-Instruct","choices":[{"index":0,"delta":{"content":" Hello"},"logprobs":null,"finish_reason":null}]}` + "\n\n"

func BenchmarkPeek(b *testing.B) {
	for name, size := range map[string]int{"1KB": 1 << 10, "64KB": 64 << 10} {
		b.Run(name, func(b *testing.B) {
			body := chatBody(size)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := openai.Peek(openai.Chat, "application/json", body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSplice(b *testing.B) {
	body := chatBody(1 << 10)
	peeked, err := openai.Peek(openai.Chat, "application/json", body)
	if err != nil {
		b.Fatal(err)
	}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = peeked.Splice(dst[:0], body, openai.Edit{Model: "meta-llama/Llama-3.1-8B-Instruct", AskUsage: true})
	}
}

func BenchmarkParseRoute(b *testing.B) {
	method, target := []byte("POST"), []byte("/v1/chat/completions")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := openai.ParseRoute(method, target); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFeed(b *testing.B) {
	chunk := []byte(chatChunk)
	usage := []byte("data: {\"id\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":20,\"total_tokens\":30}}\n\n")
	long := []byte(`data: {"type":"image_generation.partial_image","b64_json":"` + strings.Repeat("QUJD", 1<<18) + "\"}\n\n")
	for _, c := range []struct {
		name   string
		pieces [][]byte
	}{
		{"chunk", [][]byte{chunk}},
		{"two halves", [][]byte{chunk[:100], chunk[100:]}},
		{"32 chunks", [][]byte{bytes.Repeat(chunk, 32)}},
		{"stripped", [][]byte{usage}},
		{"1MB event", [][]byte{long}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := openai.NewStream(openai.StreamConfig{API: openai.Chat, StripUsage: true})
			b.SetBytes(int64(len(bytes.Join(c.pieces, nil))))
			b.ReportAllocs()
			for b.Loop() {
				for _, p := range c.pieces {
					s.Feed(p)
				}
			}
		})
	}
}
