package canary

import "testing"

// The counts are those of finished requests, of all models and outcomes, and at a colo server also of what pools refuse.
func TestRead(t *testing.T) {
	got, err := Read(`# HELP inference_requests_total Finished requests
# TYPE inference_requests_total counter
colonnade_build_info{go="go1.26",revision="x",version="v1"} 1
inference_requests_total{model="a",outcome="completed"} 100
inference_requests_total{model="b,c",outcome="refused"} 7
inference_requests_total{model="a",outcome="engine_error"} 3
inference_requests_total{model="a",outcome="timeout"} 2
inference_requests_total{model="a",outcome="client_gone"} 1
inference_requests_total{model="a",outcome="moved"} 50
colonnade_pool_refusals_total{pool="p",reason="queue_full"} 4
colonnade_pool_retries_total{pool="p"} 9
process_start_time_seconds 1.7e+09
`)
	if want := (Counts{Requests: 117, Refused: 11, Failed: 5, GaveUp: 1, Started: 1.7e9}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if _, err := Read("<html>a page of another program</html>"); err == nil {
		t.Error("a page of another program is read")
	}
}

func TestSince(t *testing.T) {
	earlier := Counts{Requests: 10, Refused: 1, Failed: 2, GaveUp: 3, Started: 5}
	later := Counts{Requests: 40, Refused: 2, Failed: 4, GaveUp: 6, Started: 5}
	if got, want := later.Since(earlier), (Counts{Requests: 30, Refused: 1, Failed: 2, GaveUp: 3, Started: 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := later.And(earlier), (Counts{Requests: 50, Refused: 3, Failed: 6, GaveUp: 9}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	other := later
	other.Started++
	if later.Restarted(earlier) || !earlier.Restarted(later) || !other.Restarted(earlier) {
		t.Error("a process that counts on has not restarted, and one that begins anew has")
	}
}
