package etcd

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// writtenBy puts the author of a revision, as the command line does in the transaction of the documents.
func (s *stateTest) writtenBy(user string, revision int64) {
	changed := s.changed
	s.takeHistory(Stored{Key: AuthorKey, Value: fmt.Appendf(nil, `{"user":%q,"host":"laptop","command":"colonnade test"}`, user), Revision: revision})
	if s.changed != changed {
		s.t.Error("the author of a change is a reason for a table")
	}
}

// logged logs the changes that are due after some time, and returns what the log has since the last call.
func (s *stateTest) logged(after time.Duration) string {
	s.now = s.now.Add(after)
	s.logChanges(s.now)
	text := s.log.String()
	s.log.Reset()
	return text
}

// Each change that a node takes up is logged, with kind, key, revision, and the author if that is known. The documents of the start, those
// that have not changed, and rejected ones are not.
func TestChangesAreLogged(t *testing.T) {
	s := newStateTest(t)
	s.write("models/a", "{}", false)
	s.write("models/b", "{}", false)
	s.after(0)
	if text := s.logged(time.Minute); text != "" {
		t.Errorf("at the start: %s", text)
	}
	f := func(want string, revision int64) {
		t.Helper()
		got := s.logged(changeQuiet)
		want = "level=INFO msg=\"documents " + strings.ReplaceAll(want, "REVISION", fmt.Sprintf("revision=%d", revision)) + "\n"
		if _, got, _ = strings.Cut(got, " "); got != want {
			t.Errorf("logged %q, want %q", got, want)
		}
	}
	at := s.write("models/a", "aliases: [x]", false)
	s.writtenBy("alice", at)
	f(`changed" documents=1 kind=models keys=models/a REVISION by="alice@laptop: colonnade test"`, at)
	f(`unchanged in meaning" documents=1 kind=models keys=models/a REVISION`, s.write("models/a", "# the same\naliases: ['x']", false))
	f(`created" documents=1 kind=accounts keys=accounts/acme REVISION`, s.write("accounts/acme", "{}", false))
	f(`deleted" documents=1 kind=accounts keys=accounts/acme REVISION`, s.erase("accounts/acme"))
	s.write("models/a", "aliases: [x]", false)
	s.write("models/b", "colour: red", false)
	s.erase("models/none")
	if text := s.logged(time.Minute); strings.Contains(text, "documents changed") || strings.Contains(text, "documents deleted") {
		t.Errorf("nothing was taken up: %s", text)
	}
	// A registrar's document is logged when it comes and goes, and not each time that it changes.
	f(`created" documents=1 kind=endpoints keys=endpoints/ams/e REVISION`, s.write("endpoints/ams/e", "{url: 'http://e', pool: p, concurrency: 0}", true))
	s.write("endpoints/ams/e", "{url: 'http://e', pool: q, concurrency: 0}", true)
	if text := s.logged(time.Minute); text != "" {
		t.Errorf("a new version of a registrar: %s", text)
	}
	f(`deleted" documents=1 kind=endpoints keys=endpoints/ams/e REVISION`, s.erase("endpoints/ams/e"))
}

// A change of a thousand documents is a line, and documents that change all the time cause few. None of the changes is missing from the counts.
func TestLogOfChangesIsBounded(t *testing.T) {
	s := newStateTest(t)
	s.after(0)
	s.models(1000)
	text := s.logged(changeQuiet)
	if n := strings.Count(text, "\n"); n != 1 || !strings.Contains(text, "documents=1000 kind=models") || !strings.Contains(text, "models/m007 and 992 more") ||
		!strings.Contains(text, "revision=1000 from_revision=1") {
		t.Errorf("%d lines: %s", n, text)
	}
	s.write("pools/p", "{}", false)
	if text := s.logged(changeQuiet - 1); text != "" {
		t.Errorf("before it was quiet: %s", text)
	}
	s.logged(time.Hour)
	lines, changes, rounds := 0, 0, 600
	count := func(text string) {
		for line := range strings.Lines(text) {
			n := 0
			_, rest, _ := strings.Cut(line, "documents=")
			_, _ = fmt.Sscanf(rest, "%d", &n)
			lines, changes = lines+1, changes+n
		}
	}
	for i := range rounds { // a minute
		s.write("models/m000", fmt.Sprintf("retry: {errors: %d}", i%7+1), false)
		count(s.logged(100 * time.Millisecond))
	}
	count(s.logged(time.Hour))
	if most := logBurst + int(time.Minute/logInterval) + 1; lines > most || changes != rounds {
		t.Errorf("%d lines, at most %d; %d of %d changes", lines, most, changes, rounds)
	}
}

// A held deletion keeps its revision and its author, also over a restart. A change by others has none.
func TestHeldDeletionsSayBy(t *testing.T) {
	s := newStateTest(t)
	s.models(1)
	s.write("accounts/a", "{}", false)
	s.after(0)
	first := s.erase("models/m000")
	s.writtenBy("alice", first)
	second := s.erase("accounts/a")
	held := s.after(0).HeldDeletions
	want := fmt.Sprintf("[{accounts/a %d } {models/m000 %d alice@laptop: colonnade test}]", second, first)
	if fmt.Sprint(held) != want {
		t.Errorf("held %v, want %v", held, want)
	}
	if again := s.restarted().table(s.now).HeldDeletions; fmt.Sprint(again) != want {
		t.Errorf("after a restart: %v, want %v", again, want)
	}
	s.wantLogged("by=\"alice@laptop: colonnade test\"", 1)
	// A store that was restored counts from an older revision on.
	s.writtenBy("bob", 2)
	if s.authors.of(first) != "" || s.authors.of(2) != "bob@laptop: colonnade test" {
		t.Errorf("authors %+v", s.authors)
	}
	for revision := range int64(2 * maxAuthors) {
		s.writtenBy("carol", revision+2)
	}
	if n := len(s.authors.revisions); n != maxAuthors || len(s.authors.names) != n {
		t.Errorf("%d authors are kept, %d names", n, len(s.authors.names))
	}
}
