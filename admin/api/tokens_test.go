package api

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	if list, err := newTokenList("f", []byte("# none\n"), true); err != nil || len(list) != 0 {
		t.Errorf("got %v, %v", list, err)
	}
	if _, err := newTokenList("f", []byte("# none\n"), false); err == nil {
		t.Error("an empty file was accepted at the start")
	}
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
