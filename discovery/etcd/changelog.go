package etcd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// Changes of documents that a node takes up are logged when none has come for changeQuiet, but at most changeWait after the first, so
// that a command which changes a thousand documents causes one line or two. There are at most logBurst lines at once, and then one each
// logInterval; a change that comes in between is in the next line.
const (
	changeQuiet = 200 * time.Millisecond
	changeWait  = 2 * time.Second
	maxListed   = 8 // keys, and authors, in a line
)

// changeAction is what happened to a document.
type changeAction string

const (
	actionCreated changeAction = "created"
	actionChanged changeAction = "changed"
	actionDeleted changeAction = "deleted"
	// actionRestyled is a change of comments or style alone.
	actionRestyled changeAction = "unchanged in meaning"
)

// putAction returns what a put does to a document that is there, or is not.
func putAction(there bool) changeAction {
	if there {
		return actionChanged
	}
	return actionCreated
}

// isSameMeaning reports whether two versions of a document differ in comments and style alone. good is nil if there was no good version.
func isSameMeaning(key string, good, next []byte) bool {
	if good == nil {
		return false
	}
	found, err := document.Differences(key, good, next)
	return err == nil && len(found) == 0
}

// changeLog collects changes of documents for the next lines of the log.
type changeLog struct {
	limiter     *rate.Limiter
	byAction    map[changeAction]*changeSummary
	first, last time.Time // of the changes
}

// changeSummary is what the log says about some changes. Its size is bounded.
type changeSummary struct {
	kinds           map[fleet.Kind]int
	documents       int
	keys            []string // the first ones
	lowest, highest int64    // revisions
}

func newChangeLog() changeLog {
	return changeLog{limiter: rate.NewLimiter(rate.Every(logInterval), logBurst), byAction: map[changeAction]*changeSummary{}}
}

// noteChange notes that a version of a document was taken up. Left out are documents that a node finds at its start and did not have before,
// and new versions of those that nodes and registrars write about themselves.
func (s *documentState) noteChange(key string, action changeAction, revision int64, leased bool, now time.Time) {
	if !s.published && !s.restored || leased && action == actionChanged {
		return
	}
	l := &s.changes
	if len(l.byAction) == 0 {
		l.first = now
	}
	l.last = now
	summary := l.byAction[action]
	if summary == nil {
		summary = &changeSummary{kinds: map[fleet.Kind]int{}, lowest: revision}
		l.byAction[action] = summary
	}
	summary.add(key, revision)
}

func (c *changeSummary) add(key string, revision int64) {
	c.kinds[kindOf(key)]++
	c.documents++
	c.lowest, c.highest = min(c.lowest, revision), max(c.highest, revision)
	if len(c.keys) < maxListed {
		c.keys = append(c.keys, key)
	}
}

// due returns when changes are logged; ok is false if there are none.
func (l *changeLog) due(now time.Time) (at time.Time, ok bool) {
	if len(l.byAction) == 0 {
		return time.Time{}, false
	}
	at = l.last.Add(changeQuiet)
	if latest := l.first.Add(changeWait); latest.Before(at) {
		at = latest
	}
	if tokens := l.limiter.TokensAt(now); tokens < 1 {
		if next := now.Add(time.Duration((1 - tokens) * float64(logInterval))); next.After(at) {
			at = next
		}
	}
	return at, true
}

// logChanges logs the changes that were noted, if that is due.
func (s *documentState) logChanges(now time.Time) {
	if at, some := s.changes.due(now); !some || at.After(now) {
		return
	}
	s.flushChanges(now)
}

// flushChanges logs the changes that were noted, a line for each action.
func (s *documentState) flushChanges(now time.Time) {
	if len(s.changes.byAction) == 0 {
		return
	}
	s.changes.limiter.AllowN(now, 1)
	for _, action := range []changeAction{actionDeleted, actionChanged, actionCreated, actionRestyled} {
		if c := s.changes.byAction[action]; c != nil {
			s.logger.Info("documents "+string(action), c.fields(&s.authors)...) //nolint:sloglint // one of four
		}
	}
	clear(s.changes.byAction)
}

func (c *changeSummary) fields(a *authors) []any {
	fields := []any{"documents", c.documents, "kind", c.kindText(), "keys", firstOf(c.keys, c.documents), "revision", c.highest}
	if c.lowest < c.highest {
		fields = append(fields, "from_revision", c.lowest)
	}
	if by := a.between(c.lowest, c.highest); by != "" {
		fields = append(fields, "by", by)
	}
	return fields
}

// kindText returns the kind, or with several, how many documents each has.
func (c *changeSummary) kindText() string {
	kinds := slices.Sorted(maps.Keys(c.kinds))
	if len(kinds) == 1 {
		return string(kinds[0])
	}
	var texts []string
	for _, kind := range kinds {
		texts = append(texts, fmt.Sprintf("%s %d", kind, c.kinds[kind]))
	}
	return strings.Join(texts, ", ")
}

// firstOf returns the first of some keys, and how many there are more.
func firstOf(keys []string, all int) string {
	shown := keys[:min(len(keys), maxListed)]
	text := strings.Join(shown, ", ")
	if more := all - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// maxAuthors is how many revisions of the store are remembered with their author.
const maxAuthors = 256

// authors says who wrote the newest revisions, of those that were written by a [Writer].
type authors struct {
	revisions []int64 // ascending
	names     map[int64]string
}

// takeHistory takes a key of the history. It changes no document.
func (s *documentState) takeHistory(d Stored) {
	if d.Key == AuthorKey {
		s.authors.note(d.Revision, d.Value)
	}
}

// note takes the value of [AuthorKey] at a revision.
func (a *authors) note(revision int64, value []byte) {
	author, err := ParseAuthor(value)
	if err != nil || a.names[revision] != "" {
		return // it says nothing; who wrote it is not known
	}
	if n := len(a.revisions); n > 0 && a.revisions[n-1] > revision { // the store was restored
		a.revisions, a.names = nil, nil
	}
	if a.names == nil {
		a.names = map[int64]string{}
	}
	a.revisions, a.names[revision] = append(a.revisions, revision), author.String()
	if len(a.revisions) > maxAuthors {
		delete(a.names, a.revisions[0])
		a.revisions = a.revisions[1:]
	}
}

// of returns who wrote a revision; empty if that is not known.
func (a *authors) of(revision int64) string { return a.names[revision] }

// between returns who wrote some of the revisions from one to another; empty if that is known of none.
func (a *authors) between(from, to int64) string {
	var names []string
	for _, revision := range a.revisions {
		if name := a.names[revision]; revision >= from && revision <= to && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return firstOf(names, len(names))
}
