package main

import (
	"strings"
	"testing"
)

func TestBar(t *testing.T) {
	f := func(used, all int, want string) {
		t.Helper()
		s := &sheet{ascii: true}
		s.line(s.bar(used, all, fine)...)
		if got := s.text(0, false)[0]; got != want {
			t.Errorf("%d of %d: got %s, want %s", used, all, got, want)
		}
	}
	f(0, 8, "----------")
	f(4, 8, "#####-----")
	f(8, 8, "##########")
	f(9, 8, "##########")
	f(1, 1000, "#---------")
	f(999, 1000, "#########-")
	f(0, 0, "----------")
	f(1, 0, "##########")
	f(-3, 8, "----------")
	f(3, -8, "##########")
	f(1<<62, 1<<63-1, "#####-----")
}

func TestSheet(t *testing.T) {
	s := &sheet{}
	s.table("  ", [][]cell{
		{left("NAME", faint), right("N", faint), left("BAR", faint), left("", plain)},
		{left("a", bold), right("1000", plain), {pieces: s.bar(1, 2, bad)}, left("odd", odd)},
		{left("longer", plain), right("7", plain), left("", plain), left("", plain)},
	})
	s.line(piece{"a\x1b[31m\nb\u202e\u4e16é", plain})
	f := func(width int, colours bool, want string) {
		t.Helper()
		if got := strings.Join(s.text(width, colours), "\n"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	f(0, false, "  NAME       N  BAR\n  a       1000  █████░░░░░  odd\n  longer     7\na?[31m?b???")
	f(20, false, "  NAME       N  BAR\n  a       1000  ████\n  longer     7\na?[31m?b???")
	f(9, true, "  \x1b[2mNAME\x1b[0m   \n  \x1b[1ma\x1b[0m      \n  longer \na?[31m?b?")
	s.ascii = true
	f(0, false, "  NAME       N  BAR\n  a       1000  ??????????  odd\n  longer     7\na?[31m?b???")
}

func TestSeen(t *testing.T) {
	f := func(in string, most int, want string) {
		t.Helper()
		if got := seen(in, most); got != want {
			t.Errorf("seen(%q, %d) = %q, want %q", in, most, got, want)
		}
	}
	f("llama-3.1-8b", 12, "llama-3.1-8b")
	f("llama-3.1-70b", 12, "llama-3.1-..")
	f("\x1b[2J", 20, `"\x1b[2J"`)
	f("世界", 20, `"\u4e16\u754c"`)
	f("世界", 8, `"\u4e1..`)
}
