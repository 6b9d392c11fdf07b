package realtime

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// A close frame at the end is found whatever came before, and however the bytes were cut into pieces.
func TestCloseTail(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	longest := "\x88\x7d\x03\xe8" + strings.Repeat("x", 123)
	for text, want := range map[string]bool{
		"": false, "\x88": false, "\x88\x00": true, "\x88\x02\x03\xe8": true, longest: true,
		"\x88\x01\x03": false, "\x88\x02\x03": false, "\x88\x02\x03\xe8x": false, "\x08\x00": false, longest + "x": false,
		"\x81\x05hello": false, "\x81\x05hello\x88\x00": true,
	} {
		for range 50 {
			whole := strings.Repeat("y", r.IntN(300)) + text
			var tail closeTail
			for rest := whole; rest != ""; {
				n := min(1+r.IntN(200), len(rest))
				tail.add([]byte(rest[:n]))
				rest = rest[n:]
			}
			if got := tail.closed(); got != want {
				t.Fatalf("%d bytes before %q: closed %v, want %v", len(whole)-len(text), text, got, want)
			}
		}
	}
}
