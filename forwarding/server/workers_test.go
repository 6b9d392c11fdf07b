package server

import (
	"testing"
	"testing/synctest"
	"time"

	"colonnade/forwarding/link"
)

// A stream gets a worker at once, an idle one if there is one, and idle workers end.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := workers{serve: func(task) { <-release }}
		serve := func(n int) {
			for range n {
				w.give(task{stream: linkedStream{Stream: new(link.Stream)}})
			}
			synctest.Wait()
		}
		wantIdle := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			if n := len(w.idle); n != want {
				t.Errorf("%s: %d workers are idle, want %d", when, n, want)
			}
		}
		serve(10)
		wantIdle("10 streams", 0)
		for range 10 {
			release <- struct{}{}
		}
		wantIdle("all have ended", 10)
		serve(3)
		wantIdle("3 streams", 7)
		for range 4 { // some are needed again and again
			for range 3 {
				release <- struct{}{}
			}
			synctest.Wait()
			time.Sleep(workerIdle)
			serve(3)
		}
		wantIdle("the others were not needed for long", 0)
		close(release)
		wantIdle("all have ended", 3)
		time.Sleep(2 * workerIdle)
		wantIdle("none was needed for long", 0)
		serve(2)
		wantIdle("two more", 2)
		w.close()
		wantIdle("after the end", 0)
	})
}
