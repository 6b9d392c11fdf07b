package openai_test

import (
	"testing"
	"time"

	"colonnade/openai"
)

// A chunk of each API beside one of chat, in turns, since other work disturbs both: what a passed chunk costs relative to chat.
func BenchmarkNativeFeed(b *testing.B) {
	type feed struct {
		name  string
		s     *openai.Stream
		piece []byte
	}
	of := func(name string, c openai.StreamConfig, piece string) feed {
		return feed{name, openai.NewStream(c), []byte(piece)}
	}
	feeds := []feed{
		of("chat", openai.StreamConfig{API: openai.Chat, StripUsage: true}, chatChunk),
		of("messages", openai.StreamConfig{API: openai.Messages, Dialect: openai.DialectAnthropic},
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" Hello\"}}\n\n"),
		of("ollama", openai.StreamConfig{API: openai.OllamaChat, Dialect: openai.DialectOllama, Framing: openai.JSONLines},
			`{"model":"llama3.1","created_at":"2026-11-23T10:00:00.000000Z","message":{"role":"assistant","content":" Hello"},"done":false}`+"\n"),
		of("tgi", openai.StreamConfig{API: openai.Generate, Dialect: openai.DialectTGI},
			`data:{"index":1,"token":{"id":9906,"text":" Hello","logprob":-0.25,"special":false},"generated_text":null,"details":null}`+"\n\n"),
		of("infill", openai.StreamConfig{API: openai.Infill}, `data: {"index":0,"content":" Hello","tokens":[9906],"stop":false,"id_slot":-1,"tokens_predicted":1,"tokens_evaluated":5}`+"\n\n"),
	}
	took := make([]time.Duration, len(feeds))
	for b.Loop() {
		for i, f := range feeds {
			began := time.Now()
			for range 100 {
				f.s.Feed(f.piece)
			}
			took[i] += time.Since(began)
		}
	}
	b.ReportMetric(float64(took[0].Nanoseconds())/float64(b.N)/100, "ns/chat")
	for i, f := range feeds[1:] {
		b.ReportMetric(float64(took[i+1])/float64(took[0]), f.name+"/chat")
	}
	b.ReportAllocs()
}
