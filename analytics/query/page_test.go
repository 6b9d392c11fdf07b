package query_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/analytics/query"
	"colonnade/internal/testkit"
)

// node is a journal and the page of its events.
type node struct {
	*journal.Log
	dir  string
	page *query.Page
	url  string
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{dir: dir, page: query.NewPage(dir, "edge-1")}
	var err error
	if n.Log, err = journal.Open(journal.Config{Dir: dir, Node: "edge-1"}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(n.page)
	n.url = server.URL
	t.Cleanup(func() {
		n.page.Close()
		http.DefaultClient.CloseIdleConnections()
		server.Close()
		_ = n.Log.Close()
	})
	return n
}

func ended(id, account string, second int) *analytics.Event {
	return &analytics.Event{
		EventID: id, RequestID: id, Kind: analytics.KindRequest, Phase: analytics.PhaseEnd, Account: account, Outcome: analytics.OutcomeCompleted,
		Time: time.Date(2026, 11, 1, 0, 0, second, 0, time.UTC),
	}
}

// get returns the ids of the events of an answer, and the answer.
func (n *node) get(t *testing.T, query string) (ids string, r *http.Response) {
	t.Helper()
	r, err := http.Get(n.url + "/?" + query)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if r.StatusCode != http.StatusOK {
		return string(body), r
	}
	var all []string
	for line := range strings.Lines(string(body)) {
		var e analytics.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e.RequestID)
	}
	return strings.Join(all, " "), r
}

func TestPage(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.Append(ended("a", "acme", 1))
	begin := ended("b", "acme", 2)
	begin.Phase, begin.Outcome = analytics.PhaseBegin, ""
	n.Append(begin)
	n.Append(ended("c", "other", 3))
	n.Append(ended("d", "acme", 4))
	f := func(query, want, end string) {
		t.Helper()
		got, r := n.get(t, query)
		if got != want || r.Trailer.Get("X-Colonnade-End") != end {
			t.Errorf("%s: got %q, %v, want %q, %s", query, got, r.Trailer, want, end)
		}
		if name := r.Header.Get("X-Colonnade-Node"); name != "edge-1" {
			t.Errorf("the node is %q", name)
		}
	}
	f("", "a c d", "complete")
	f("phase=all", "a b c d", "complete")
	f("account=acme", "a d", "complete")
	f("request=c&kind=request&outcome=completed", "c", "complete")
	f("since=2026-11-01T00:00:03Z", "c d", "complete")
	f("until=2026-11-01T00:00:03Z", "a", "complete")
	f("last=2", "c d", "complete")
	f("last=1&account=other", "c", "complete")
	f("bytes=1", "a", "bytes")
	bad := func(query, want string) {
		t.Helper()
		if got, r := n.get(t, query); r.StatusCode != http.StatusBadRequest || !strings.Contains(got, want) {
			t.Errorf("%s: got %d %q, want %q", query, r.StatusCode, got, want)
		}
	}
	bad("acount=acme", `"acount"="acme": there is no such parameter; there are account, key, model`)
	bad("since=soon", `"soon" is no time; examples: 90m`)
	bad("kind=x", `must be one of ["request" "inference" "forward" "engine"]`)
	bad("outcome=x", "must be one of")
	bad("phase=begin", "must be one of")
	bad("last=-1", "must be 0 to 100000")
	bad("bytes=0", "must be 1 to ")
	bad("follow=maybe", "invalid syntax")
	bad("after=x", `"x" is no position in the events of a node`)
}

// One byte an answer: each goes on where the one before has ended, and all of them together have each event once.
func TestPagesContinue(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	var want, got []string
	for i := range 20 {
		e := ended(fmt.Sprint(i), "acme", i)
		if i%3 == 0 {
			e.Outcome = analytics.OutcomeRefused
		}
		n.Append(e)
		want = append(want, fmt.Sprint(i))
	}
	for after := ""; ; {
		ids, r := n.get(t, "bytes=1&after="+after)
		if after = r.Trailer.Get("X-Colonnade-Position"); r.Trailer.Get("X-Colonnade-End") == "complete" {
			break
		}
		got = append(got, ids)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An answer that follows has new events as they are appended, and ends when the node does. No more than MaxReaders are answered at once.
func TestPageFollows(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.Append(ended("a", "acme", 1))
	var bodies []*http.Response
	for range query.MaxReaders {
		r, err := http.Get(n.url + "/?follow=true&account=acme")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		bodies = append(bodies, r)
	}
	first := bufio.NewReader(bodies[0].Body)
	next := func(want string) {
		t.Helper()
		if line, err := first.ReadString('\n'); err != nil || !strings.Contains(line, `"request_id":"`+want+`"`) {
			t.Fatalf("got %q, %v, want %s", line, err, want)
		}
	}
	next("a")
	n.Append(ended("b", "other", 2))
	n.Append(ended("c", "acme", 3))
	next("c")
	if text, r := n.get(t, ""); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || !strings.Contains(text, "8 others read") {
		t.Errorf("one more: got %d %q", r.StatusCode, text)
	}
	bodies[1].Body.Close() // a reader that leaves makes room for another
	testkit.WaitFor(t, "room for another reader", func() bool {
		_, r := n.get(t, "")
		return r.StatusCode == http.StatusOK
	})
	n.page.Close()
	for _, r := range bodies[2:] {
		if _, err := io.Copy(io.Discard, r.Body); err != nil || r.Trailer.Get("X-Colonnade-End") != "stopping" {
			t.Errorf("got %v, %v", err, r.Trailer)
		}
	}
}

// Corrupt lines are counted, and a node without a data directory says so.
func TestPageOfBadLinesAndOfNone(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for i := range 5 {
		n.Append(ended(fmt.Sprint("a", i), "acme", i))
	}
	r := httptest.NewRecorder()
	query.NewPage("", "edge-1").ServeHTTP(r, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil))
	if r.Code != http.StatusNotFound || !strings.Contains(r.Body.String(), "started without -data-dir") {
		t.Errorf("got %d %q", r.Code, r.Body)
	}
	f := func(wantIDs, wantBad string) {
		t.Helper()
		ids, answer := n.get(t, "")
		if bad := answer.Trailer.Get("X-Colonnade-Bad-Lines"); ids != wantIDs || bad != wantBad {
			t.Errorf("events %q and %s bad lines, want %q and %s", ids, bad, wantIDs, wantBad)
		}
	}
	f("a0 a1 a2 a3 a4", "0")
	n.damage(t, `"a1"`)
	n.damage(t, `"a3"`)
	f("a0 a2 a4", "2")
}

// damage flips a byte of the first event that has a text.
func (n *node) damage(t *testing.T, text string) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(n.dir, "events", "edge-1", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range segments {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.Index(data, []byte(text)); at >= 0 {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte("X"), int64(at)+1); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no segment of %q has %s", segments, text)
}
