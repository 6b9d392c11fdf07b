package document_test

import (
	"testing"

	"colonnade/fleet/document"
)

// A field is set, changed and taken out where it stands, and nothing else of the text changes.
func TestSetField(t *testing.T) {
	t.Parallel()
	const key = "endpoints/ams/e"
	f := func(before, value, want string) {
		t.Helper()
		got, err := document.Raw{Key: key, Value: []byte(before)}.SetField("state", value)
		if err != nil || string(got.Value) != want || got.Key != key {
			t.Errorf("%q with %q: got %q (%v), want %q", before, value, got.Value, err, want)
		}
	}
	f("# the big one\nurl: http://h # rack 3\npool: p\n", "draining", "# the big one\nurl: http://h # rack 3\npool: p\nstate: draining\n")
	f("url: http://h\nstate: draining # by hand\npool: p\n", "", "url: http://h\npool: p\n")
	f("url: http://h\nstate: active\npool: p", "draining", "url: http://h\nstate: draining\npool: p")
	f("url: http://h\npool: p\nstate: draining", "draining", "url: http://h\npool: p\nstate: draining")
	f("names:\n  state: x\nurl: http://h\npool: p", "draining", "names:\n  state: x\nurl: http://h\npool: p\nstate: draining\n")
	f(`{"url": "http://h", "pool": "p"}`, "draining", "{\n  \"pool\": \"p\",\n  \"state\": \"draining\",\n  \"url\": \"http://h\"\n}\n")
	f("{url: 'http://h', state: draining, pool: p}", "", "{\n  \"pool\": \"p\",\n  \"url\": \"http://h\"\n}\n")
	if _, err := (document.Raw{Key: key, Value: []byte("url: [")}).SetField("state", "draining"); err == nil {
		t.Error("a document that cannot be read was changed")
	}
}
