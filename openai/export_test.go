package openai

// NewSmallStream returns a stream with smaller bounds, so that tests reach them.
func NewSmallStream(c StreamConfig, maxHeld, maxEvent int) *Stream {
	s := NewStream(c)
	s.maxHeld, s.maxEvent = maxHeld, maxEvent
	return s
}
