package ctxtime_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/internal/ctxtime"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := func(ends, sleeps, took time.Duration, want bool) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), ends)
			defer cancel()
			began := time.Now()
			if got := ctxtime.Sleep(ctx, sleeps); got != want || time.Since(began) != took {
				t.Errorf("Sleep(%v) in a context of %v: %v after %v", sleeps, ends, got, time.Since(began))
			}
		}
		f(time.Hour, time.Second, time.Second, true)
		f(time.Second, time.Hour, time.Second, false)
		f(0, 0, 0, false)
		f(time.Second, -1, 0, true)
	})
}
