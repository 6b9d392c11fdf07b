package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/admin/api"
	"colonnade/problems"
	"colonnade/reasons"
)

// A file of tokens that is gone is a problem of severity error.
func TestMissingTokenFileIsAProblem(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("alice 0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		tokens, err := api.OpenTokens(path, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		found := func() []problems.Problem {
			l := &problems.List{}
			(&runtime{source: "files", config: Config{Node: "n"}, tokens: tokens}).addTokens(l)
			return l.All()
		}
		if got := found(); len(got) != 0 {
			t.Errorf("with the file: %v", got)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // until the file is read again
		got := found()
		if len(got) != 1 || got[0].Kind != reasons.AdminTokensInvalid || got[0].Severity != problems.SeverityError || !strings.Contains(got[0].Text, "n: flag -admin-tokens: cannot read tokens") {
			t.Errorf("without the file: %v", got)
		}
	})
}
