package transport

import (
	"testing"
	"testing/synctest"
	"time"

	"colonnade/forwarding/hop"
)

// A node that was asked for progress may send it for as long as a request waits.
func TestInterimResponsesForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		in := interimLimiter{onProgress: func(hop.Progress) { calls++ }, began: time.Now()}
		h := head{status: 102, lines: hop.HeaderProgress + ": position=7\r\n"}
		for range 3600 {
			if err := in.add(&h, 100); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if calls != 3600 {
			t.Errorf("%d calls", calls)
		}
	})
}
