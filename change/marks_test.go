package change_test

import (
	"testing"

	"colonnade/change"
	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
)

// Documents that an operator puts are not of an API key any more, unless nothing is changed, or the registrar puts the document again.
func TestUnmarked(t *testing.T) {
	t.Parallel()
	const mark = "registered_by: gpus 1\n"
	f := func(there *etcd.Stored, text, want string) {
		t.Helper()
		const key = "endpoints/ams/x"
		var before []etcd.Stored
		if there != nil {
			there.Key = key
			before = append(before, *there)
		}
		got, err := change.Unmarked(before, []document.Raw{{Key: key, Value: []byte(text)}})
		if err != nil || len(got) != 1 || got[0].Key != key || string(got[0].Value) != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	marked := func(leased bool) *etcd.Stored {
		return &etcd.Stored{Value: []byte("pool: p\n" + mark), Leased: leased}
	}
	f(nil, "# a copy\npool: p\n"+mark, "# a copy\npool: p\n")
	f(marked(false), "pool: q\n"+mark, "pool: q\n")
	f(marked(false), "pool: p\n", "pool: p\n")
	f(marked(false), "# same\npool: 'p'\n"+mark, "# same\npool: 'p'\n"+mark)
	f(marked(true), "pool: q\n"+mark, "pool: q\n"+mark)
	f(&etcd.Stored{Value: []byte("pool: p\n")}, "pool: p\n"+mark, "pool: p\n")
	f(&etcd.Stored{Value: []byte("pool: [\n")}, "pool: p\n"+mark, "pool: p\n")
}
