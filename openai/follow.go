package openai

import "bytes"

// LongBody finds the usage of an answer that is not a stream while it passes,
// however long it is. The zero value is ready.
type LongBody struct{ sketch sketch }

// Write takes the next bytes of the body.
func (l *LongBody) Write(p []byte) { l.sketch.write(p) }

// Usage is what BodyUsage finds in the whole body, once that has passed.
func (l *LongBody) Usage() (Usage, bool) { return BodyUsage(l.sketch.text()) }

// Conversation follows what an engine says in a realtime session. The zero value
// is one at its beginning. It is not safe for concurrent use.
type Conversation struct {
	message  sketch
	usage    Usage
	hasUsage bool
	deltas   int // since the last response whose usage is known
}

// Write takes the next bytes of the message that is under way.
func (c *Conversation) Write(p []byte) { c.message.write(p) }

// EndMessage says that the message under way is whole.
func (c *Conversation) EndMessage() {
	m, ok := parseMessage(c.message.text())
	c.message = sketch{out: c.message.out[:0]}
	switch {
	case !ok:
	case string(m.kind) == "response.done":
		// What a transcription took, other events tell: it is another model's.
		if m.hasUsage {
			c.usage.add(m.usage)
			c.hasUsage, c.deltas = true, 0
		}
	case bytes.HasSuffix(m.kind, []byte("audio.delta")): // sound, of which a transcript comes beside
	case bytes.HasPrefix(m.kind, []byte("response.")):
		c.deltas += m.deltas
	}
}

// Usage is the sum of what the responses so far have told, if any did.
func (c *Conversation) Usage() (Usage, bool) { return c.usage, c.hasUsage }

// Deltas counts the pieces of text of responses that have not told their usage.
func (c *Conversation) Deltas() int { return c.deltas }
