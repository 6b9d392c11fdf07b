package simengine

import (
	"cmp"
	"encoding/base64"
)

// transcription is /v1/audio/transcriptions and translations. The format verbose_json is billed by time, the others by
// tokens.
func transcription(e *Engine, c *call) answer {
	t := e.generate(c)
	u := transcriptionUsage{Type: "tokens", InputTokens: c.prompt.tokens, OutputTokens: len(t.tokens),
		TotalTokens: c.prompt.tokens + len(t.tokens)}
	a := t.answer(func() []byte {
		switch c.options.format {
		case "text":
			return []byte(t.String() + "\n")
		case "verbose_json":
			return marshal(verboseTranscription{Text: t.String(), Duration: float64(c.options.seconds),
				Usage: durationUsage{Type: "duration", Seconds: c.options.seconds}})
		}
		return marshal(struct {
			Text  string             `json:"text"`
			Usage transcriptionUsage `json:"usage"`
		}{t.String(), u})
	})
	if c.options.format == "text" {
		a.wholeType = "text/plain; charset=utf-8"
	}
	a.streamed = c.stream
	a.token = func(dst []byte, i int) []byte {
		dst = appendJSON(append(dst, "data: {\"type\":\"transcript.text.delta\",\"delta\":"...), t.tokens[i])
		return append(dst, "}\n\n"...)
	}
	a.end = event(nil, marshal(struct {
		Type  string             `json:"type"`
		Text  string             `json:"text"`
		Usage transcriptionUsage `json:"usage"`
	}{"transcript.text.done", t.String(), u}))
	return a
}

type verboseTranscription struct {
	Text     string        `json:"text"`
	Duration float64       `json:"duration"`
	Usage    durationUsage `json:"usage"`
}

type durationUsage struct {
	Type    string `json:"type"`
	Seconds int    `json:"seconds"`
}

type transcriptionUsage struct {
	Type         string `json:"type"`
	InputTokens  int    `json:"input_tokens"`
	OutputTokens int    `json:"output_tokens"`
	TotalTokens  int    `json:"total_tokens"`
}

// The size of an audio token, unless the request says how many bytes it wants, and the largest size that it gets.
const (
	bytesPerToken = 256
	maxSpeech     = 1 << 30
)

// speech is /v1/audio/speech: bytes without meaning, always in the same number of pieces, or the same as events.
func speech(e *Engine, c *call) answer {
	n := e.c.Tokens
	size := cmp.Or(c.options.bytes, n*bytesPerToken)
	if c.big {
		n, size = bigPieces, bigPieces*bigPiece
	}
	size = min(max(size, n), maxSpeech)
	piece := make([]byte, size/n)
	a := answer{tokens: n, streamed: true, streamType: "audio/mpeg", tail: make([]byte, size%n)}
	a.token = func(dst []byte, i int) []byte { return append(dst, piece...) }
	if !c.options.sse {
		return a
	}
	frame := event(nil, marshal(struct {
		Type  string `json:"type"`
		Audio string `json:"audio"`
	}{"speech.audio.delta", base64.StdEncoding.EncodeToString(piece)}))
	a.streamType, a.tail = eventStream, nil
	a.token = func(dst []byte, i int) []byte { return append(dst, frame...) }
	a.end = event(nil, marshal(struct {
		Type  string             `json:"type"`
		Usage transcriptionUsage `json:"usage"`
	}{"speech.audio.done", transcriptionUsage{Type: "tokens", InputTokens: c.prompt.tokens, OutputTokens: n,
		TotalTokens: c.prompt.tokens + n}}))
	a.fail = func(dst []byte, f failPoint) []byte { return event(dst, f.err.body()) }
	return a
}

// generateImage is /v1/images/generations, and variations.
func generateImage(e *Engine, c *call) answer { return image(e, c, "image_generation") }

// editImage is /v1/images/edits.
func editImage(e *Engine, c *call) answer { return image(e, c, "image_edit") }

// image is one picture of one pixel, streamed with partial images, by events whose names begin with the task.
func image(e *Engine, c *call, task string) answer {
	const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	type picture struct {
		Type  string `json:"type,omitempty"`
		Index *int   `json:"partial_image_index,omitempty"`
		Image string `json:"b64_json"`
	}
	a := answer{
		tokens: fewTokens + 1, wholeType: "application/json", streamed: c.stream, streamType: eventStream,
		whole: func() []byte {
			return marshal(struct {
				Created int64          `json:"created"`
				Data    []picture      `json:"data"`
				Usage   *responseUsage `json:"usage"`
			}{e.now(), []picture{{Image: pixel}}, c.responseUsageOf(1)})
		},
	}
	a.token = func(dst []byte, i int) []byte {
		return namedData(dst, task+".partial_image", marshal(picture{Type: task + ".partial_image", Index: &i, Image: pixel}))
	}
	a.end = namedData(nil, task+".completed", marshal(struct {
		picture
		Usage *responseUsage `json:"usage"`
	}{picture{Type: task + ".completed", Image: pixel}, c.responseUsageOf(1)}))
	a.fail = func(dst []byte, f failPoint) []byte {
		return namedData(dst, "error", marshal(struct {
			Type  string   `json:"type"`
			Error apiError `json:"error"`
		}{"error", f.err}))
	}
	return a
}
