package main

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"colonnade/analytics"
	"colonnade/internal/pgtest"
	"colonnade/internal/testkit"
)

// A table has the exact totals of a journal, though the process that ships was killed at any moment while events came, and the database too.
func TestShipToPostgresKilled(t *testing.T) {
	server := pgtest.Start(t)
	dir := t.TempDir()
	t.Setenv("PG", pgtest.Password)
	l := openLog(t, dir, "ams-1")
	sink := "postgres://postgres@" + server.Address() + "/postgres?credential=env:PG&batch_events=50&every=10ms&name=pg"
	appended, tokens := 0, 0
	total := func() (rows, different, sum int) {
		conn, err := pgx.Connect(t.Context(), server.URL())
		if err != nil {
			return -1, 0, 0 // it was killed a moment ago
		}
		defer func() { _ = conn.Close(t.Context()) }()
		err = conn.QueryRow(t.Context(), "select count(*), count(distinct event_id || phase), coalesce(sum(prompt_tokens), 0) from colonnade_events").Scan(&rows, &different, &sum)
		if err != nil {
			return -1, 0, 0 // there is no table yet
		}
		return rows, different, sum
	}
	rounds := testkit.AtScale(6, 20)
	for round := range rounds {
		p := startShip(t, "-data-dir", dir, "-sink", sink)
		for range 2000 {
			e := used(fmt.Sprintf("%06d", appended), "acme", "m", 1)
			e.Kind, e.PromptTokens = analytics.KindInference, appended%1000
			l.Append(e)
			appended, tokens = appended+1, tokens+appended%1000
		}
		testkit.WaitFor(t, "some events", func() bool { rows, _, _ := total(); return rows >= appended-2000+100*(round+1) })
		if round == rounds/2 {
			server.Kill()
			server.Run()
		}
		if err := p.Stop(syscall.SIGKILL); err == nil {
			t.Error("it ended by itself")
		}
	}
	run(t, "", "ship", "-data-dir", dir, "-once", "-sink", sink).want(t, "0 to go")
	if rows, different, sum := total(); rows != appended || different != appended || sum != tokens {
		t.Errorf("the table has %d events, %d of them different, with %d tokens; want %d events with %d tokens", rows, different, sum, appended, tokens)
	}
}
