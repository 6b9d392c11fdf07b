package openai

import (
	"bytes"

	"colonnade/internal/ascii"
)

// Framing is how the events of a stream follow each other in the bytes of an answer.
type Framing uint8

const (
	NoFraming   Framing = iota // the answer is no stream
	EventStream                // server-sent events
	JSONLines                  // a line of JSON for each event
)

// FramingOf returns the framing of an answer of this content type. Only the APIs of Ollama have streams of JSON lines.
func FramingOf(api API, contentType []byte) Framing {
	switch {
	case IsEventStream(contentType):
		return EventStream
	case api.hasJSONLines() && isJSONLines(contentType):
		return JSONLines
	}
	return NoFraming
}

// QueueEvents reports whether the streams of an API may have comments before their first event, so that clients can see their place in
// a queue.
func (a API) QueueEvents() bool { return !a.hasJSONLines() }

func (a API) hasJSONLines() bool { return a == OllamaChat || a == OllamaGenerate }

// isJSONLines knows the name that Ollama uses (server/routes.go, streamResponse), and the one without its prefix.
func isJSONLines(contentType []byte) bool {
	media, _, _ := bytes.Cut(contentType, []byte(";"))
	media = bytes.Trim(media, " \t")
	return ascii.EqualFold(media, "application/x-ndjson") || ascii.EqualFold(media, "application/ndjson")
}

// cutLine does for JSON lines what cut does for events: it returns how much of p belongs to the current line, and whether the line ends there.
func cutLine(p []byte) (n int, done bool) {
	if i := bytes.IndexByte(p, '\n'); i >= 0 {
		return i + 1, true
	}
	return len(p), false
}
