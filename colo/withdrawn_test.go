package colo

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/homes"
	"colonnade/reasons"
)

// A right that ends between the grant and the moment when the request would be sent counts: nothing is sent, the permit is
// free, and the request waits for the right to return.
func TestRightEndsAfterTheGrant(t *testing.T) {
	f := func(end, back func(s *testServer)) {
		t.Helper()
		s := startServer(t)
		var asked atomic.Int32
		s.engine(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("{}"))
		})
		read := make(chan struct{})
		s.credentials.readFile = func(string) ([]byte, error) {
			<-read
			return []byte("secret"), nil
		}
		s.apply(lateModel + "credential: file:slow\n")
		statuses := make(chan int, 1)
		go func() {
			status, _ := s.chat("late")
			statuses <- status
		}()
		s.until("the grant to be logged", func() bool { return s.config.Log.Stats().OpenBegins == 1 })
		end(s)
		close(read)
		s.until("the request to wait again", func() bool { return s.pool("p").Queued == 1 })
		if s.held() != 0 || asked.Load() != 0 || len(statuses) != 0 {
			t.Errorf("without the right: %d permits held, the engine asked %d times, %d answered", s.held(), asked.Load(), len(statuses))
		}
		back(s)
		if status := <-statuses; status != 200 || asked.Load() != 1 {
			t.Errorf("answered with %d, the engine asked %d times", status, asked.Load())
		}
		s.until("the request to be gone", func() bool { return s.inflight.Count() == 0 })
		if got := s.outcomes(); !slices.Equal(got, []analytics.Outcome{analytics.OutcomeMoved, analytics.OutcomeCompleted}) {
			t.Errorf("the events say %s", got)
		}
		for e, err := range journal.ReadDir(s.events) {
			if err == nil && e.Outcome == analytics.OutcomeMoved && e.Reason != reasons.GrantExpired {
				t.Errorf("the event says %s", e.Reason)
			}
		}
	}
	f(func(s *testServer) { s.SetFence(time.Time{}) }, func(s *testServer) { s.SetFence(time.Now().Add(time.Hour)) })
	// The process has registered again, and its fence holds already.
	f(func(s *testServer) {
		s.SetGrants(&homes.Grants{})
		s.RenewFence()
		s.SetFence(time.Now().Add(time.Hour))
	}, func(s *testServer) { s.SetGrants(nil) })
}
