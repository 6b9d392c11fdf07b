package openai

// NewSmallStream returns a stream with smaller bounds, so that tests reach them.
func NewSmallStream(c StreamConfig, maxHeld, maxEvent int) *Stream {
	s := NewStream(c)
	s.maxHeld, s.maxEvent = maxHeld, maxEvent
	return s
}

// Deltas returns the number of pieces of content so far.
func (s *Stream) Deltas() int { return s.seen.deltas }

// The bounds of what one token stands for.
const (
	WordsOfToken   = wordsOfToken
	LettersOfToken = lettersOfToken
)
