package files_test

import (
	"fmt"
	"testing"

	"colonnade/fleet/document"
)

// Documents of the process are in force beside the files. A file that has the key of one wins, and so does the source that
// came first.
func TestOwnDocuments(t *testing.T) {
	dir := start(t, "a.yaml", model("m", 1))
	w, log := newWatcher(dir.path, 0)
	load := func() {
		t.Helper()
		if err := w.Load(); err != nil {
			t.Fatal(err)
		}
	}
	want := func(m, n, o int) {
		t.Helper()
		if a, b, c := version(w.Table(), "m"), version(w.Table(), "n"), version(w.Table(), "o"); a != m || b != n || c != o {
			t.Errorf("versions %d, %d, %d, want %d, %d, %d", a, b, c, m, n, o)
		}
	}
	w.SetOwn("first", []document.Raw{rawModel("m", 7), rawModel("n", 7)})
	want(-1, -1, -1)
	load()
	want(1, 7, -1)
	changed := w.Changed()
	w.SetOwn("second", []document.Raw{rawModel("n", 8), rawModel("o", 8)})
	<-changed
	want(1, 7, 8)
	w.SetOwn("first", []document.Raw{rawModel("n", 9)})
	want(1, 9, 8)
	owner := func(name, want string) {
		t.Helper()
		if place, source := w.Owner("models/" + name); place+source != want {
			t.Errorf("%s has the owner %q%q, want %q", name, place, source, want)
		}
	}
	owner("m", dir.file("a.yaml")+":1")
	owner("n", "first")
	owner("o", "second")
	owner("x", "")
	dir.write("a.yaml", model("n", 2))
	load()
	owner("n", dir.file("a.yaml")+":1")
	want(-1, 2, 8)
	dir.write("a.yaml", model("m", 2))
	load()
	want(2, 9, 8)
	w.SetOwn("first", nil)
	want(2, 8, 8)
	// Of a bad document the last good version stays, and nothing else is held up.
	w.SetOwn("second", []document.Raw{{Key: "models/n", Value: []byte("retry: 1")}, rawModel("o", 3)})
	want(2, 8, 3)
	if got := w.State().Rejected; len(got) != 1 || got[0].Key != "models/n" || !got[0].LastGood || len(log.lines("own document rejected")) != 1 {
		t.Errorf("rejected %+v", got)
	}
	// A bad file does not keep documents of the process from coming into force.
	dir.write("a.yaml", "retry")
	if err := w.Load(); err == nil {
		t.Error("the file is good")
	}
	w.SetOwn("second", []document.Raw{rawModel("o", 4)})
	want(2, -1, 4)
	if got := w.State().Rejected; len(got) != 1 || got[0].File != dir.file("a.yaml")+":1" {
		t.Errorf("rejected %+v", got)
	}
}

// The URL of an engine is that of the endpoint in a file, whenever that comes, and of the process's own one without it.
func TestFileWinsOverOwnEndpoint(t *testing.T) {
	endpoint := func(id string) string {
		return fmt.Sprintf("key: endpoints/local/%s\nurl: http://127.0.0.1:8000\npool: p\n", id)
	}
	dir := start(t, "a.yaml", "# none\n")
	w, log := newWatcher(dir.path, 0)
	want := func(id string, conflicts int) {
		t.Helper()
		if err := w.Load(); err != nil {
			t.Fatal(err)
		}
		if got := w.Table().EndpointsOf("local"); len(got) != 1 || got[0].ID != id || len(w.State().Conflicts) != conflicts {
			t.Errorf("endpoints %+v, state %+v", got, w.State())
		}
	}
	w.SetOwn("engines", []document.Raw{{Key: "endpoints/local/found", Value: []byte("{url: 'http://127.0.0.1:8000', pool: p}")}})
	want("found", 0)
	dir.write("a.yaml", endpoint("of-file"))
	want("of-file", 1)
	want("of-file", 1)
	if got := log.lines("conflicting documents"); len(got) != 1 {
		t.Errorf("log: %q", got)
	}
	dir.write("a.yaml", "# none\n")
	want("found", 0)
	dir.write("a.yaml", endpoint("found"))
	want("found", 0)
	// It counts who has a document, not only what stands in it.
	dir.write("a.yaml", "# none\n")
	own := []document.Raw{{Key: "endpoints/local/a", Value: []byte("url: http://127.0.0.1:8000\npool: p\n")}}
	w.SetOwn("engines", append(own, document.Raw{Key: "endpoints/local/b", Value: own[0].Value}))
	want("a", 1)
	dir.write("a.yaml", endpoint("b"))
	want("b", 1)
}
