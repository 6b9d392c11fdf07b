package openai

import "errors"

const (
	// MaxHeldEvent is the length of the longest event that is held back until it is complete; longer ones pass in
	// pieces.
	MaxHeldEvent = 64 << 10
	// MaxEvent is the length of the longest event that is allowed.
	MaxEvent = 16 << 20
)

// ErrEventTooLong is returned for an event longer than MaxEvent.
var ErrEventTooLong = errors.New("openai: the engine sent an event longer than 16 MiB")

// FirstEvent is the kind of event that began a stream.
type FirstEvent uint8

const (
	NoEvent    FirstEvent = iota // only comments and pings so far
	DataEvent                    // an event with data
	ErrorEvent                   // an error
)

// StreamConfig describes the request of a stream, and the framing of its answer.
type StreamConfig struct {
	API        API
	Dialect    Dialect     // of the client's route, for AppendError
	Framing    Framing     // server-sent events unless it is JSONLines
	StripUsage bool        // take out the usage event, which the client did not ask for
	Translate  *Translator // of a stream whose client has another API; nil = none

	Parts StreamParts // of a stream of llama.cpp's own API; see [Body.StreamParts]
}

// Stream follows an engine's answer that is a stream of events, from its first byte to its last. It is not safe for
// concurrent use.
//
// The end of an event does not depend on how the bytes were cut into pieces; so neither does any result of a Stream,
// nor the sum of its output.
type Stream struct {
	config            StreamConfig
	maxHeld, maxEvent int
	lines             lineCutter
	held              []byte // of the current event, not yet delivered
	size              int    // of the current event so far
	long              *longEvent
	comments          commentFilter // of a long event
	isLong            bool          // the current event exceeds MaxHeldEvent and passes in pieces
	begun             bool          // an event has ended
	stripped          bool          // the last event was taken out
	nodeComment       bool          // the last event has a comment that looks like an entry's
	trailing          bool          // bytes have come behind the end
	out               output
	joined            []byte // scratch: several data lines
	translated        []byte // scratch: what an event has become
	seen              progress
	err               error
}

// progress is the content of the events so far.
type progress struct {
	first      FirstEvent
	firstError EngineError
	lastError  EngineError
	ended      bool // as the API's streams do
	over       bool // nothing that follows is delivered
	failed     bool
	usage      Usage
	hasUsage   bool
	deltas     int
	unreported int // deltas since the last usage
	sequence   int // of the next event, for responses
	counts     tokenCounts
	several    []ofSeveral // completions of llama.cpp's own API
	begun      int         // how many of them have begun
	stopped    int         // and ended
	mayBeMore  bool        // although the stream may end here
}

// NewStream returns a Stream at its beginning.
func NewStream(c StreamConfig) *Stream {
	s := &Stream{config: c, maxHeld: MaxHeldEvent, maxEvent: MaxEvent}
	s.lines.byLine, s.seen.counts = c.Framing == JSONLines, noCounts
	if c.Translate != nil { // of which no piece can pass
		s.maxHeld = s.maxEvent
	}
	return s
}

// Feed takes the next bytes from the engine and returns the bytes for the client: whole events, or pieces of one too
// long to hold. Comments that look like an entry's are emptied, and in events too long to hold all comments. Bytes behind
// the end are dropped. The result is valid until the next call and may be a part of p.
func (s *Stream) Feed(p []byte) []byte {
	s.out.reset(p)
	for i := 0; i < len(p) && s.err == nil; {
		if s.size == 0 && s.lines.cr && p[i] == '\n' {
			i = s.lineFeed(i)
			continue
		}
		if s.seen.over {
			s.trailing, s.lines.cr = true, false
			break
		}
		n, done := s.lines.cut(p[i:])
		s.take(i, i+n, done)
		i += n
	}
	return s.out.take()
}

// lineFeed passes the second half of the CRLF that ended the last event. The event did not wait for it, since an engine
// that ends lines with CR alone would then be one event late.
func (s *Stream) lineFeed(i int) int {
	s.lines.cr = false
	if !s.stripped {
		s.out.pass(i, i+1)
	}
	return i + 1
}

// take adds a piece of the input to the current event; done means that the event ends there.
func (s *Stream) take(from, to int, done bool) {
	s.size += to - from
	if s.config.Translate != nil && s.size > s.maxEvent {
		s.err = ErrEventTooLong
		return
	}
	if !s.isLong && s.size > s.maxHeld {
		s.stopHolding()
	}
	switch {
	case s.isLong:
		s.takeLong(from, to, done)
	case !done:
		s.held = append(s.held, s.out.p[from:to]...)
		return
	default:
		s.takeWhole(from, to)
	}
	if done {
		s.held, s.size, s.isLong, s.begun = s.held[:0], 0, false, true
	}
}

// takeWhole delivers the current event, of which this is the last piece.
func (s *Stream) takeWhole(from, to int) {
	event, inPlace := s.out.p[from:to], len(s.held) == 0
	if !inPlace {
		s.held = append(s.held, event...)
		event = s.held
	}
	if s.config.Translate != nil {
		s.takeTranslated(event)
		return
	}
	switch s.stripped = s.event(event); {
	case s.stripped:
	case s.nodeComment:
		s.out.add(withoutNodeComments(event, !s.begun))
	case inPlace:
		s.out.pass(from, to)
	default:
		s.out.add(event)
	}
}

// stopHolding delivers the current event in pieces from now on.
func (s *Stream) stopHolding() {
	if s.long == nil {
		s.long = new(longEvent)
	}
	s.isLong, s.comments = true, newCommentFilter(!s.begun)
	s.comments.off = s.lines.byLine
	s.long.reset(!s.begun, s.lines.byLine)
	s.long.write(s.held)
	s.comments.pass(s.held, func(from, to int) { s.out.add(s.held[from:to]) })
	s.held = s.held[:0]
	s.commit()
}

func (s *Stream) takeLong(from, to int, done bool) {
	s.stripped = false
	if over := s.size - s.maxEvent; over > 0 {
		to -= over
		s.err = ErrEventTooLong
	}
	s.long.write(s.out.p[from:to])
	s.comments.pass(s.out.p[from:to], func(i, j int) { s.out.pass(from+i, from+j) })
	if done && s.err == nil {
		s.long.end()
		s.meaning(s.long.name, s.long.skeleton.text())
	}
}

// commit records that the stream began with something other than an error.
func (s *Stream) commit() {
	if s.seen.first == NoEvent {
		s.seen.first = DataEvent
	}
}

// Finish ends the stream, when the engine's answer has ended by HTTP's own framing. It returns what was held back and
// is due to the client: the last event of a stream that ends without a blank line. If the stream needs an end of its
// own and has none, a held piece is dropped, so that an error event can follow.
func (s *Stream) Finish() []byte {
	if s.err != nil || s.isLong || len(s.held) == 0 {
		return nil
	}
	if s.config.Translate != nil {
		return s.finishTranslated()
	}
	tail, end := s.held, "\n"
	if !s.lines.byLine {
		tail, end = withoutNodeComments(s.held, !s.begun), "\n\n"
	}
	s.held, s.size = nil, 0
	if s.seen.ended || !s.NeedsEnd() {
		return tail
	}
	before := s.seen
	s.event(tail)
	if !s.seen.ended {
		s.seen = before
		return nil
	}
	return append(tail, end...)
}

// First returns the kind of the first event, with the error of an ErrorEvent. An event too long to hold never counts as
// an error.
func (s *Stream) First() (FirstEvent, *EngineError) {
	if s.seen.first != ErrorEvent {
		return s.seen.first, nil
	}
	e := s.seen.firstError
	return ErrorEvent, &e
}

// Ended reports whether the end that the API gives its streams has arrived.
func (s *Stream) Ended() bool { return s.seen.ended }

// Over reports whether the stream has ended properly, without an error, and nothing can follow. Of images, and of completions of one
// prompt, there may be several, each with an end.
func (s *Stream) Over() bool { return s.seen.over && !s.seen.failed }

// AtEnd reports whether nothing can follow, after an error or without one.
func (s *Stream) AtEnd() bool { return s.seen.over }

// Trailing reports whether bytes have come behind the end. They were dropped.
func (s *Stream) Trailing() bool { return s.trailing }

// Framing returns the framing of the events.
func (s *Stream) Framing() Framing { return s.config.Framing }

// NeedsEnd reports whether the API gives its streams an end of their own. The others end by HTTP's framing.
func (s *Stream) NeedsEnd() bool {
	switch s.config.API {
	case Chat, Completions, Responses, Transcriptions, Speech, Images, Messages, Infill, LlamaCompletions, OllamaChat, OllamaGenerate, Generate:
		return true
	}
	return false
}

// Failed reports whether an event was an error.
func (s *Stream) Failed() bool { return s.seen.failed }

// LastError returns the last error event; zero if there was none.
func (s *Stream) LastError() EngineError { return s.seen.lastError }

// Usage returns the last usage that an event reported, if any did.
func (s *Stream) Usage() (Usage, bool) { return s.seen.usage, s.seen.hasUsage }

// UnreportedDeltas returns the number of pieces of content since the last event with usage: some engines report usage
// again and again. Engines send about one piece for each token.
func (s *Stream) UnreportedDeltas() int { return s.seen.unreported }

// Err returns ErrEventTooLong or ErrNotTranslated, after which nothing more is delivered, or nil.
func (s *Stream) Err() error { return s.err }
