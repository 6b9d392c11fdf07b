package link

import "testing"

// A write waits for frames of others as long as some come. If none does, most writes do without.
func TestWaitsForOthersWhileTheyCome(t *testing.T) {
	yields, others := 0, false
	var s sender
	s.tryWrite = func(p []byte) (int, error) { return len(p), nil }
	s.yield = func() {
		if yields++; others {
			s.push(frame{kind: kindPing})
		}
	}
	write := func(n int) (waited int) {
		yields = 0
		for range n {
			s.push(frame{kind: kindPing})
			s.flushJoined()
		}
		return yields
	}
	others = true
	if n := write(100); n != 100 {
		t.Errorf("while others come: %d of 100 writes wait", n)
	}
	others = false
	if n := write(100); n < 5 || n > 15 {
		t.Errorf("while none comes: %d of 100 writes wait", n)
	}
	others = true
	write(15) // until the next attempt
	if n := write(100); n != 100 {
		t.Errorf("when others come again: %d of 100 writes wait", n)
	}
}
