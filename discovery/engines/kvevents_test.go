package engines

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"colonnade/fleet/document"
)

// An engine that says where it publishes events of its KV cache has the field in its document, at the host of its URL.
func TestAskReadsWhereEventsArePublished(t *testing.T) {
	t.Parallel()
	pages := func(kind, config string, ranks int, more string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/v1/models":
				fmt.Fprintf(w, `{"object": "list", "data": [{"id": "m", "object": "model", "owned_by": %q}]}`, kind)
			case "/version":
				fmt.Fprint(w, `{"version": "0.11.0"}`)
			case "/model_info":
				fmt.Fprint(w, `{"is_generation": true}`)
			case "/server_info":
				if kind == "sglang" {
					fmt.Fprintf(w, `{"version": "0.5.3", "dp_size": %d, "kv_events_config": %s}`, ranks, config)
				} else {
					fmt.Fprintf(w, `{"vllm_config": {"kv_events_config": %s, "parallel_config": {"data_parallel_size": %d%s}}}`, config, ranks, more)
				}
			default:
				http.NotFound(w, r)
			}
		}
	}
	f := func(kind, config string, ranks int, more, want string) {
		t.Helper()
		e := ask(t, serve(t, pages(kind, config, ranks, more)))
		host := strings.TrimPrefix(e.URL[:strings.LastIndex(e.URL, ":")], "http:")
		if got := strings.Replace(e.KVEvents, host+":", "//HOST:", 1); e.Kind != kind || got != want {
			t.Errorf("%s %s: %q, want %q", e.Kind, config, got, want)
		}
		d, _, err := Place{Colo: "ams", ID: "e"}.Register(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := document.Check(d.Key, d.Value); err != nil || strings.Contains(string(d.Value), "kv_events: ") != (want != "") {
			t.Errorf("%v:\n%s", err, d.Value)
		}
	}
	f("vllm", `{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:5600", "topic": "kv"}`, 1, "", "tcp://HOST:5600")
	f("vllm", `{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://[::]:5600"}`, 4, "", "tcp://HOST:5600-5603")
	f("vllm", `{"enable_kv_cache_events": true, "publisher": "zmq"}`, 2, `, "data_parallel_external_lb": true`, "")
	f("vllm", `{"enable_kv_cache_events": false, "publisher": "zmq"}`, 1, "", "")
	f("vllm", `{"enable_kv_cache_events": true, "publisher": "null"}`, 1, "", "")
	f("vllm", `{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://collector:5557"}`, 1, "", "")
	f("vllm", `{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "ipc:///tmp/kv"}`, 1, "", "")
	f("vllm", `{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:65535"}`, 2, "", "")
	f("vllm", `null`, 1, "", "")
	f("sglang", `"{\"publisher\": \"zmq\", \"topic\": \"kv-events\"}"`, 1, "", "tcp://HOST:5557")
	f("sglang", `"{\"publisher\": \"zmq\", \"endpoint\": \"tcp://*:6000\"}"`, 2, "", "tcp://HOST:6000-6001")
	f("sglang", `{"publisher": "zmq"}`, 1, "", "tcp://HOST:5557")
	f("sglang", `[7]`, 1, "", "")
	f("sglang", `"no JSON"`, 1, "", "")
	f("sglang", `null`, 1, "", "")
}
