package homes_test

import (
	"maps"
	"testing"

	"colonnade/homes"
)

func TestRecordRoundTrip(t *testing.T) {
	in := homes.Record{
		Process: homes.Process{Node: "ams-1", Boot: "B1"}, Put: 7, Address: "10.0.0.1:8443",
		Owns: map[string]int{"http://10.0.0.7:8000": 12, "http://10.0.0.8:8000": 0}, Held: map[string]int{"http://10.0.0.9:8000": 3},
	}
	owns, held := in.Encode()
	out := homes.ParseRecord(in.Process, owns, held)
	if out.Problem != "" || out.Put != 7 || out.Address != in.Address || !maps.Equal(out.Owns, in.Owns) || !maps.Equal(out.Held, in.Held) {
		t.Errorf("ParseRecord = %+v, want %+v", out, in)
	}
}

func TestDamagedRecordBlocksWhatCanBeRead(t *testing.T) {
	for name, owns := range map[string]string{
		"cut":           `{"version":1,"put":3,"address":"a:1","owns":{"http://x:1":4,"http://y:1":`,
		"newer":         `{"version":2,"put":3,"address":"a:1","owns":{"http://x:1":4,"http://y:1":0}}`,
		"unknown field": `{"version":1,"put":3,"shards":2,"owns":{"http://x:1":4,"http://y:1":0}}`,
		"a list":        `{"version":1,"put":3,"owns":["http://x:1","http://y:1"]}`,
		"not JSON":      `"http://x:1" "http://y:1"`,
	} {
		r := homes.ParseRecord(homes.Process{Node: "n", Boot: "b"}, []byte(owns), nil)
		_, x := r.Owns["http://x:1"]
		_, y := r.Owns["http://y:1"]
		if r.Problem == "" || !x || !y {
			t.Errorf("%s: problem %q, owns %v; want a problem, and both engines", name, r.Problem, r.Owns)
		}
	}
}

func TestRecordWithoutOwnsIsAProblem(t *testing.T) {
	r := homes.ParseRecord(homes.Process{Node: "n", Boot: "b"}, nil, []byte(`{"http://x:1":2}`))
	if r.Problem == "" || r.Held["http://x:1"] != 2 {
		t.Errorf("ParseRecord = %+v, want a problem, and two requests held", r)
	}
}
