package api

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/internal/testkit"
)

const aliceToken, bobToken = "alice-0123456789abcdef", "bob-0123456789abcdef"

// tokenFile writes a file of tokens and returns its path.
func tokenFile(t *testing.T, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// A file of tokens that is not right is refused, and no error repeats a token.
func TestTokenFiles(t *testing.T) {
	t.Parallel()
	f := func(content string, mode os.FileMode, want string) {
		t.Helper()
		path := tokenFile(t, content, mode)
		_, err := OpenTokens(path, slog.New(slog.DiscardHandler))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q %o: got %v, want %q", content, mode, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "0123456789") || strings.Contains(err.Error(), "short")) {
			t.Errorf("the error has a token: %v", err)
		}
	}
	good := "# comment\n\nalice " + aliceToken + "\nbob\t" + bobToken + "\nalice " + aliceToken + "2\n"
	f(good, 0o600, "")
	f(good, 0o400, "")
	f(good, 0o640, "has mode 0640: others can read it; run chmod 0600 on it")
	f(good, 0o604, "others can read it")
	f(good, 0o620, "others can read it")
	f("", 0o600, "has no token: write lines of NAME TOKEN")
	f("# alice\n", 0o600, "has no token")
	f("alice short\n", 0o600, "line 1: has a token of 5 characters: use at least 16")
	f("\n"+aliceToken+"\n", 0o600, "line 2: has 1 words: a line is NAME TOKEN")
	f("alice "+aliceToken+" x\n", 0o600, "has 3 words")
	f("al:ice "+aliceToken+"\n", 0o600, "begins with a name that is not")
	f("alice "+aliceToken+"\nbob "+aliceToken+"\n", 0o600, "line 2: bob has the token of another line")
	f("alice "+strings.Repeat("x", maxTokenFile), 0o600, "has more than 64 KiB")
	if _, err := OpenTokens(t.TempDir(), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
}

// A file may become empty, which takes all tokens out of force, but not begin so.
func TestEmptyTokenFile(t *testing.T) {
	t.Parallel()
	if list, err := newTokenList("f", []byte("# none\n"), &tokenList{}); err != nil || len(list.tokens) != 0 {
		t.Errorf("got %v, %v", list, err)
	}
	if _, err := newTokenList("f", []byte("# none\n"), nil); err == nil {
		t.Error("an empty file was accepted at the start")
	}
}

// With a line that is not right, tokens in force stay so if their lines still stand; deleted ones are revoked, and no new one is accepted.
func TestBadLineRevokesDeletedTokens(t *testing.T) {
	t.Parallel()
	before, err := newTokenList("f", []byte("alice "+aliceToken+"\nbob "+bobToken+"\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := newTokenList("f", []byte("carol\nbob "+bobToken+"\ndave "+bobToken+"9\n"), &before)
	if err != nil || list.problem == nil || !strings.Contains(list.problem.Error(), "line 1: has 1 words") {
		t.Errorf("got %v, %v", list.problem, err)
	}
	if len(list.tokens) != 1 || list.tokens[0].name != "bob" {
		t.Errorf("in force: %v", list.tokens)
	}
}

// A file that is deleted, or that others can read, takes all its tokens out of force until it is right again.
func TestUnreadableTokenFileRevokesAll(t *testing.T) {
	t.Parallel()
	content := "alice " + aliceToken + "\n"
	f := func(want string, harm, repair func(path string) error) {
		t.Helper()
		path := tokenFile(t, content, 0o600)
		synctest.Test(t, func(t *testing.T) {
			tokens, err := OpenTokens(path, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			step := func(change func(path string) error, inForce bool, problem string) {
				t.Helper()
				if err := change(path); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second) // until the file is read again
				if _, known := tokens.user(aliceToken); known != inForce {
					t.Errorf("in force: %v, want %v", known, inForce)
				}
				if err := tokens.Problem(); (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
					t.Errorf("got the problem %v, want %q", err, problem)
				}
			}
			step(func(string) error { return nil }, true, "")
			step(harm, false, want)
			step(repair, true, "")
		})
	}
	f("no such file", os.Remove, func(path string) error { return os.WriteFile(path, []byte(content), 0o600) })
	f("others can read it", func(path string) error { return os.Chmod(path, 0o644) }, func(path string) error { return os.Chmod(path, 0o600) })
}

// Changed tokens are in force without a restart.
func TestTokensAreReadAgain(t *testing.T) {
	t.Parallel()
	path := tokenFile(t, "alice "+aliceToken+"\n", 0o600)
	tokens, err := OpenTokens(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	known := func(token string) string {
		name, _ := tokens.user(token)
		return name
	}
	if known(aliceToken) != "alice" || known(bobToken) != "" || known("") != "" || known("alice") != "" {
		t.Error("the first tokens are not in force")
	}
	if err := os.WriteFile(path, []byte("bob "+bobToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, "the new token", func() bool { return known(bobToken) == "bob" })
	if known(aliceToken) != "" {
		t.Error("a token that is gone is in force")
	}
}
