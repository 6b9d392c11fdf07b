package columns_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/columns"
)

// The columns of the first version, by which tables have been made. A new field of an event is not among them, and has the tag since.
var first = []string{
	"event_id text!", "request_id text!", "client_request_id text", "trace_id text", "kind text!", "phase text!", "time time!", "node text!", "colo_id text",
	"source_colo_id text", "colo_path texts!", "account text", "key text", "model text", "pool text", "endpoint text", "engine text",
	"status integer", "code text", "reason text", "outcome text", "attempts integer", "request_time_ms number", "queuing_time_ms number",
	"inference_time_ms number", "time_to_first_token_ms number", "prompt_tokens integer", "completion_tokens integer",
	"cached_tokens integer", "tokens_estimated integer", "audio_seconds number", "cost number", "cost_unit text", "bytes_in integer",
	"bytes_out integer", "messages_in integer", "messages_out integer", "local_queue_size integer", "streamed flag!", "websocket flag!",
	"beta flag!", "external_endpoint flag!", "queued_in_colo flag!", "refused_by_entry flag!", "partial flag!",
}

func TestColumnsStay(t *testing.T) {
	var got []string
	for _, c := range columns.All() {
		if c.Since > analytics.SchemaVersion {
			t.Errorf("column %s comes with version %d of the schema, which is %d", c.Name, c.Since, analytics.SchemaVersion)
		}
		if c.Since > 1 {
			continue
		}
		text := c.Name + " " + string(c.Type)
		if !c.Optional {
			text += "!"
		}
		got = append(got, text)
	}
	if !slices.Equal(got, first) {
		t.Errorf("got %q\nwant %q", got, first)
	}
}

func TestValue(t *testing.T) {
	when := time.Date(2026, 11, 23, 10, 0, 0, 123456789, time.FixedZone("", 3600))
	e := &analytics.Event{
		Time: when, Model: "a\x00b", ColoPath: []string{"ams/a"}, Kind: analytics.KindRequest, Status: 200,
		RequestTime: analytics.Milliseconds(1234567 * time.Nanosecond), Cost: 0.5, BytesIn: 7, Streamed: true,
	}
	f := func(name string, want any) {
		t.Helper()
		i := slices.Index(columns.Names(columns.All()), name)
		if got := columns.All()[i].Value(e); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v, want %#v", name, got, want)
		}
	}
	f("time", time.Date(2026, 11, 23, 9, 0, 0, 123456000, time.UTC))
	f("model", "a\uFFFDb")
	f("colo_path", []string{"ams/a"})
	f("kind", "request")
	f("status", int64(200))
	f("request_time_ms", 1.235)
	f("cost", 0.5)
	f("bytes_in", int64(7))
	f("streamed", true)
	f("partial", false)
	f("account", nil)
	f("cost_unit", nil)
	f("bytes_out", nil)
	f("queuing_time_ms", nil)
	f("node", "")
	e = &analytics.Event{}
	f("colo_path", []string{})
}
