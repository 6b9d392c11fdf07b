package main

import (
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"colonnade/discovery/etcd"
)

// The history can be read on a terminal of 80 columns: no command is squeezed into a narrow column. Where there is room, and in a pipe, a
// change is one line.
func TestHistoryFitsTheTerminal(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 7, 1, 3, 0, 0, 0, time.UTC)
	all := []etcd.Change{{Revision: 5127, Author: etcd.Author{User: "alice", Host: "laptop-12.example.org", Command: "colonnade config apply -prune fleet/production", Time: at},
		Documents: []etcd.ChangedDocument{{Key: "models/llama-3.1-8b", Action: etcd.ActionChanged, Old: "pool: a", New: "pool: b"}, {Key: "pools/b", Action: etcd.ActionCreated, New: "{}"}}}}
	f := func(width int, want ...string) {
		t.Helper()
		out := &screen{width: width, colour: width > 0}
		drawHistory(out, all)
		plain := text.StripEscape(out.String())
		for line := range strings.Lines(plain) {
			if n := len(strings.TrimSuffix(line, "\n")); width > 0 && n > width {
				t.Errorf("%d columns on a terminal of %d:\n%s", n, width, plain)
			}
		}
		for _, line := range want {
			if !strings.Contains(plain, line+"\n") {
				t.Errorf("no line %q on a terminal of %d columns:\n%s", line, width, plain)
			}
		}
	}
	documents, command := "~ models/llama-3.1-8b, + pools/b", "colonnade config apply -prune fleet/production"
	narrow := []string{"      5127  2026-07-01T03:00:00Z  alice@laptop-12.example.org", "            " + documents, "            " + command}
	wide := "5127  2026-07-01T03:00:00Z  alice@laptop-12.example.org  " + documents + "  " + command
	f(80, narrow...)
	f(120, narrow...)
	f(160, wide)
	f(0, wide)
}

// A confirmation of deletions is no new document for those who read the history.
func TestConfirmationInHistory(t *testing.T) {
	t.Parallel()
	f := func(want string, c etcd.Change) {
		t.Helper()
		list, one := &screen{}, &screen{}
		drawHistory(list, []etcd.Change{c})
		drawChange(one, c)
		for _, out := range []string{list.String(), one.String()} {
			if !strings.Contains(out, want) || strings.Contains(out, "+ deletions") || strings.Contains(out, "~ deletions") {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	}
	f("confirmed the deletions up to revision 4711", etcd.Change{Revision: 5, Documents: []etcd.ChangedDocument{{Key: "deletions", Action: etcd.ActionCreated, New: "confirmed: 4711\n"}}})
	f("confirmed the deletions up to revision 4712", etcd.Change{Revision: 6,
		Documents: []etcd.ChangedDocument{{Key: "deletions", Action: etcd.ActionChanged, Old: "confirmed: 4711\n", New: "confirmed: 4712\n"}}})
	f("confirmed deletions", etcd.Change{Revision: 7, Omitted: true, Documents: []etcd.ChangedDocument{{Key: "deletions", Action: etcd.ActionChanged}}})
}
