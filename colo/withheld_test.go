package colo

import (
	"reflect"
	"testing"

	"colonnade/permits"
)

// A model that an engine said it lacks is reported as served while another engine that is up may have it; one that is left out by documents
// alone is reported only when no engine has it.
func TestModelsWithheld(t *testing.T) {
	t.Parallel()
	endpoint := func(id, state string) permits.EndpointStats {
		return permits.EndpointStats{URL: "http://" + id, Health: permits.Health{ID: id, State: state}}
	}
	lack := func(id, model string, said bool) permits.LackStats {
		l := permits.LackStats{URL: "http://" + id, Model: model, Reason: "404: no"}
		if said {
			l.AgainSeconds = new(1.5)
		}
		return l
	}
	f := func(when string, endpoints []permits.EndpointStats, lacks []permits.LackStats, want ...ModelWithheld) {
		t.Helper()
		if got := modelsWithheld(&permits.Stats{Pool: "p", Endpoints: endpoints, Lacks: lacks}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	both := []permits.EndpointStats{endpoint("a", "up"), endpoint("b", "up")}
	f("nothing", both, nil)
	f("one said so", both, []permits.LackStats{lack("a", "m", true)}, ModelWithheld{"p", "m", []string{"a: 404: no"}, true})
	f("both said so", both, []permits.LackStats{lack("a", "m", true), lack("b", "m", true)}, ModelWithheld{"p", "m", []string{"a: 404: no", "b: 404: no"}, false})
	f("the other is down", []permits.EndpointStats{endpoint("a", "up"), endpoint("b", "down")}, []permits.LackStats{lack("a", "m", true)},
		ModelWithheld{"p", "m", []string{"a: 404: no"}, false})
	other := endpoint("b", "withheld")
	other.Withheld = true
	f("another server knows of the other", []permits.EndpointStats{endpoint("a", "up"), other}, []permits.LackStats{lack("a", "m", true)},
		ModelWithheld{"p", "m", []string{"a: 404: no"}, true})
	f("by its document", both, []permits.LackStats{lack("a", "m", false)})
	f("by all documents", both, []permits.LackStats{lack("a", "m", false), lack("b", "m", false)}, ModelWithheld{"p", "m", []string{"a: 404: no", "b: 404: no"}, false})
	f("a path", both, []permits.LackStats{{URL: "http://a", Path: "/v1/rerank"}})
}
