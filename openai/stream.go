package openai

import "errors"

const (
	// MaxHeldEvent is the longest event that is held back until it is whole;
	// longer ones pass in pieces.
	MaxHeldEvent = 64 << 10
	// MaxEvent is the longest event there may be.
	MaxEvent = 16 << 20
)

// ErrEventTooLong is an event beyond MaxEvent.
var ErrEventTooLong = errors.New("openai: the engine sent an event longer than 16 MiB")

// FirstEvent says what a stream began with.
type FirstEvent uint8

const (
	NoEvent    FirstEvent = iota // nothing yet but comments and pings
	DataEvent                    // an event with data
	ErrorEvent                   // an error
)

// StreamConfig says what a stream answers to.
type StreamConfig struct {
	API        API
	StripUsage bool // take out the usage event that only we asked for
}

// Stream follows an engine's answer that is a stream of server-sent events, from
// its first byte to its last. It is not safe for concurrent use.
//
// Where an event ends does not depend on how the bytes came; so neither does
// anything that a Stream says, nor the sum of what it delivers.
type Stream struct {
	config            StreamConfig
	maxHeld, maxEvent int
	lines             lineCutter
	held              []byte // of the current event, not yet delivered
	size              int    // of the current event so far
	long              *longEvent
	isLong            bool // the current event is beyond maxHeld: it passes in pieces
	begun             bool // an event has ended
	stripped          bool // the last event was taken out
	out               delivery
	joined            []byte // scratch: several data lines
	seen              progress
	err               error
}

// progress is what the events so far have said.
type progress struct {
	first      FirstEvent
	firstError EngineError
	lastError  EngineError
	ended      bool
	failed     bool
	usage      Usage
	hasUsage   bool
	deltas     int
	untold     int // of them, those after the last usage
	sequence   int // of the next event, for responses
}

// NewStream returns a Stream at its beginning.
func NewStream(c StreamConfig) *Stream {
	s := new(Stream)
	s.Reset(c)
	return s
}

// Reset makes s a new Stream, keeping its buffers.
func (s *Stream) Reset(c StreamConfig) {
	*s = Stream{config: c, maxHeld: MaxHeldEvent, maxEvent: MaxEvent,
		held: s.held[:0], joined: s.joined[:0], long: s.long, out: delivery{buf: s.out.buf[:0]}}
}

// Feed takes the next bytes from the engine and returns what the client gets:
// whole events, or pieces of one too long to hold. It is good until the next
// call and may be a part of p.
func (s *Stream) Feed(p []byte) []byte {
	s.out.reset(p)
	for i := 0; i < len(p) && s.err == nil; {
		if s.size == 0 && s.lines.cr && p[i] == '\n' {
			i = s.lineFeed(i)
			continue
		}
		n, done := s.lines.cut(p[i:])
		s.take(i, i+n, done)
		i += n
	}
	return s.out.take()
}

// lineFeed passes the other half of the CRLF that ended the last event. The
// event did not wait for it: an engine that ends lines with CR alone would be an
// event behind.
func (s *Stream) lineFeed(i int) int {
	s.lines.cr = false
	if !s.stripped {
		s.out.pass(i, i+1)
	}
	return i + 1
}

// take adds a piece of what is fed to the current event; done says that it is
// the last of it.
func (s *Stream) take(from, to int, done bool) {
	s.size += to - from
	if !s.isLong && s.size > s.maxHeld {
		s.goLong()
	}
	switch {
	case s.isLong:
		s.takeLong(from, to, done)
	case !done:
		s.held = append(s.held, s.out.p[from:to]...)
		return
	case len(s.held) > 0:
		s.held = append(s.held, s.out.p[from:to]...)
		if s.stripped = s.event(s.held); !s.stripped {
			s.out.add(s.held)
		}
	default:
		if s.stripped = s.event(s.out.p[from:to]); !s.stripped {
			s.out.pass(from, to)
		}
	}
	if done {
		s.held, s.size, s.isLong, s.begun = s.held[:0], 0, false, true
	}
}

// goLong gives up holding the current event back.
func (s *Stream) goLong() {
	if s.long == nil {
		s.long = new(longEvent)
	}
	s.isLong = true
	s.long.reset(!s.begun)
	s.long.write(s.held)
	s.out.add(s.held)
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
	s.out.pass(from, to)
	if done && s.err == nil {
		s.long.end()
		s.meaning(s.long.name, s.long.sketch.text())
	}
}

// commit notes that the stream began with something other than an error.
func (s *Stream) commit() {
	if s.seen.first == NoEvent {
		s.seen.first = DataEvent
	}
}

// Finish says that the engine's answer is over, by HTTP's own framing, and
// returns what was held back and is still owed: the last event of a stream that
// ends without a blank line. Of a stream that needs an end of its own and has
// none, a held piece is dropped, so that an error event can follow.
func (s *Stream) Finish() []byte {
	if s.err != nil || s.isLong || len(s.held) == 0 {
		return nil
	}
	tail := s.held
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
	return append(tail, '\n', '\n')
}

// First says what the stream began with; an ErrorEvent comes with the error. An
// event too long to hold is not taken for an error.
func (s *Stream) First() (FirstEvent, *EngineError) {
	if s.seen.first != ErrorEvent {
		return s.seen.first, nil
	}
	e := s.seen.firstError
	return ErrorEvent, &e
}

// Ended says whether the end that the API gives its streams has come.
func (s *Stream) Ended() bool { return s.seen.ended }

// Over says that the stream has ended well and that nothing of meaning can follow.
// Of images there may be several, each with an end.
func (s *Stream) Over() bool {
	return s.seen.ended && !s.seen.failed && s.config.API != Images
}

// NeedsEnd says whether the API gives its streams an end of their own. The
// others end as HTTP frames them.
func (s *Stream) NeedsEnd() bool {
	switch s.config.API {
	case Chat, Completions, Responses, Transcriptions, Speech, Images:
		return true
	}
	return false
}

// Failed says whether an event told of an error.
func (s *Stream) Failed() bool { return s.seen.failed }

// LastError is what the last event that told of an error said; zero if none did.
func (s *Stream) LastError() EngineError { return s.seen.lastError }

// Usage is the last that an event told, if any did.
func (s *Stream) Usage() (Usage, bool) { return s.seen.usage, s.seen.hasUsage }

// Deltas counts the pieces of content so far; engines send about one for each
// token.
func (s *Stream) Deltas() int { return s.seen.deltas }

// Untold counts the pieces of content since the last usage that an event told:
// some engines tell it again and again.
func (s *Stream) Untold() int { return s.seen.untold }

// Err is ErrEventTooLong, after which nothing more is delivered, or nil.
func (s *Stream) Err() error { return s.err }
