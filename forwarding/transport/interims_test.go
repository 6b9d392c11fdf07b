package transport

import (
	"testing"
	"testing/synctest"
	"time"

	"colonnade/forwarding/hop"
)

// A node that was asked may go on saying how a request waits, as long as that takes.
func TestInterimAnswersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		in := interimLimiter{onProgress: func(hop.Progress) { told++ }, began: time.Now()}
		h := head{status: 102, lines: hop.HeaderProgress + ": position=7\r\n"}
		for range 3600 {
			if err := in.add(&h, 100); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if told != 3600 {
			t.Errorf("told %d times", told)
		}
	})
}
