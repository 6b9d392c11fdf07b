package register_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

const benchPause = 2 * time.Millisecond // between two looks

// BenchmarkRegister measures how long it takes from the first answer of an engine to a health check until it has served a request, through an entry
// and a colo server.
func BenchmarkRegister(b *testing.B) {
	f := bare(b, proctest.Config{})
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		w := f.StartWorker(fmt.Sprintf("gpu-%d", n+1))
		await(b, w, func() bool {
			status, _ := testkit.Get(w.URL + "/health")
			return status == http.StatusOK
		})
		b.StartTimer()
		await(b, w, func() bool { return isServed(f) })
		b.StopTimer()
		leave(f, w)
		b.StartTimer()
	}
}

func await(b *testing.B, w *proctest.Worker, is func() bool) {
	b.Helper()
	for deadline := time.Now().Add(testkit.Timeout); !is(); time.Sleep(benchPause) {
		if time.Now().After(deadline) || w.Ended() {
			b.Fatalf("%s: no answer:\n%s", w.Name, w.Output())
		}
	}
}
