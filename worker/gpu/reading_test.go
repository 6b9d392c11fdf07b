package gpu

import (
	"encoding/json"
	"strings"
	"testing"
)

// seeds are lines, and what is wrong with each.
var seeds = []struct{ line, wrong string }{
	{`{"reading":{"time":"2026-01-02T03:04:05Z","driver":"570.133.20","cuda":"12.8","gpus":[{"index":0,"uuid":"GPU-1","ecc":{"corrected":1,"uncorrected":2},
		"instances":[{"uuid":"MIG-1","gi":1,"ci":0}],"processes":[{"pid":1,"memory":2,"gi":4294967295,"ci":4294967295}]}]}}`, ""},
	{`{"reading":{"none":"no driver"}}`, ""},
	{`{"event":{"gpu":"GPU-1","xid":79,"gi":4294967295,"ci":4294967295}}`, ""},
	{`{"reading":{"gpus":[{"index":0,"uuid":"GPU-1","newer":true}]},"newer":1}`, ""},
	{``, "no JSON"},
	{`{}`, "either a reading or an event"},
	{`{"reading":{},"event":{}}`, "either a reading or an event"},
	{`{"reading":{}} x`, "something follows"},
	{`{"reading":{"gpus":[{"index":0}]}}`, "GPU 0: it has no uuid"},
	{`{"reading":{"gpus":[{"index":-1,"uuid":"GPU-1"}]}}`, "its index is -1"},
	{`{"reading":{"none":"a\nb"}}`, "cannot be printed"},
	{`{"reading":{"gpus":[{"index":0,"uuid":"GPU-1","name":"\u001b[2J"}]}}`, "cannot be printed"},
	{`{"reading":{"gpus":[{"index":0,"uuid":"GPU-1","power":"much"}]}}`, "no JSON"},
	{`{"event":{"gpu":"GPU-1","xid":10000}}`, "its Xid is 10000"},
	{`{"event":{"gpu":"` + strings.Repeat("x", 257) + `","xid":1}}`, "a text has 257 bytes, at most 256"},
	{`{"reading":{"gpus":[` + strings.Repeat(`{"index":0,"uuid":"GPU-1"},`, MaxGPUs) + `{"index":0,"uuid":"GPU-1"}]}}`, "it has 65 GPUs, at most 64"},
	{`{"reading":{"gpus":[{"index":0,"uuid":"GPU-1","processes":[` + strings.Repeat(`{},`, MaxProcesses) + `{}]}]}}`, "4097 processes"},
	{`{"reading":{"gpus":[{"index":0,"uuid":"GPU-1","instances":[` + strings.Repeat(`{},`, MaxInstances) + `{}]}]}}`, "65 instances"},
	{strings.Repeat(" ", MaxLine+1), "it has 1048577 bytes, at most 1048576"},
}

func TestParseLine(t *testing.T) {
	for _, s := range seeds {
		_, err := ParseLine([]byte(s.line))
		if s.wrong == "" && err != nil || s.wrong != "" && (err == nil || !strings.Contains(err.Error(), s.wrong)) {
			t.Errorf("%.100s: %v, want %q", s.line, err, s.wrong)
		}
	}
}

// A line that is accepted is within the bounds, and means the same when it is written again.
func FuzzParseLine(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s.line))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseLine(b)
		if err != nil {
			if l.Reading != nil || l.Event != nil {
				t.Errorf("refused, and returned: %+v", l)
			}
			return
		}
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseLine(text)
		if err != nil && len(text) <= MaxLine {
			t.Fatalf("%s: %v", text, err)
		}
		if other, _ := json.Marshal(again); err == nil && string(other) != string(text) {
			t.Errorf("%s became %s", text, other)
		}
		var v Verdicts
		if l.Reading != nil {
			_ = Proc("/nowhere").Uses(1, l.Reading.GPUs)
			_ = v.Reading(*l.Reading)
			_ = Visible("0,1,GPU-", l.Reading.GPUs)
		} else {
			_ = v.Event(*l.Event)
		}
	})
}
