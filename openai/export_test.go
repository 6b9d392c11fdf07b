package openai

// NewSmallStream is a stream that holds and passes less, so that tests come to
// its bounds.
func NewSmallStream(c StreamConfig, maxHeld, maxEvent int) *Stream {
	s := NewStream(c)
	s.maxHeld, s.maxEvent = maxHeld, maxEvent
	return s
}
