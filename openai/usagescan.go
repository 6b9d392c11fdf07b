package openai

import "bytes"

// UsageScanner finds the usage and the end of an answer that is not a stream while it passes, however long it is. It is
// ready once it has the API.
type UsageScanner struct {
	API      API
	skeleton skeleton
	end      jsonEnd
	listed   Usage // of the elements, if the answer is a list
	hasList  bool
}

// Write takes the next bytes of the body.
func (l *UsageScanner) Write(p []byte) {
	if l.skeleton.each == nil && l.API.answersNatively() {
		l.skeleton.each = l.element
	}
	l.skeleton.write(p)
	l.end.write(p)
}

// End returns the end of the bytes so far.
func (l *UsageScanner) End() JSONEnd { return l.end.end() }

// element adds the usage of an element of a list.
func (l *UsageScanner) element(text []byte) {
	if m, ok := parseNative(l.API, text); ok && m.hasUsage {
		l.listed.add(m.usage)
		l.hasList = true
	}
}

// Usage returns what BodyUsage would find in the whole body. Call it after the last Write.
func (l *UsageScanner) Usage() (Usage, bool) {
	text := l.skeleton.text()
	if !l.hasList {
		return BodyUsage(l.API, text)
	}
	return l.listed, l.End() == JSONClosed && len(text) > 0 && text[0] != '?'
}

// Conversation follows the messages of an engine in a realtime session. The zero value is ready. It is not safe for
// concurrent use.
type Conversation struct {
	message  skeleton
	usage    Usage
	hasUsage bool
	deltas   int // since the last response with usage
}

// Write takes the next bytes of the current message.
func (c *Conversation) Write(p []byte) { c.message.write(p) }

// EndMessage ends the current message.
func (c *Conversation) EndMessage() {
	m, ok := parseMessage(c.message.text())
	c.message = skeleton{out: c.message.out[:0]}
	switch {
	case !ok:
	case string(m.typ) == "response.done":
		// Other events report the usage of transcriptions, which another model makes.
		if m.hasUsage {
			c.usage.add(m.usage)
			c.hasUsage, c.deltas = true, 0
		}
	case bytes.HasSuffix(m.typ, []byte("audio.delta")): // sound, which has a transcript in other events
	case bytes.HasPrefix(m.typ, []byte("response.")):
		c.deltas += m.deltas
	}
}

// Usage returns the sum of the usage of the responses so far, if any reported one.
func (c *Conversation) Usage() (Usage, bool) { return c.usage, c.hasUsage }

// Deltas returns the number of pieces of text in responses that have not reported usage.
func (c *Conversation) Deltas() int { return c.deltas }
