package pages

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"colonnade/analytics/ship"
	"colonnade/analytics/sinks/postgres"
	"colonnade/internal/pgtest"
	"colonnade/internal/sinktest"
)

// TestSQLOnPostgreSQL runs the queries of the page over the table that the sink makes and fills.
func TestSQLOnPostgreSQL(t *testing.T) {
	server := pgtest.Start(t)
	queries, _ := sqlOfPage(t)
	sink, err := postgres.Open(sinktest.Spec(t, "postgres://postgres@"+server.Address()+"/postgres", ""), sinktest.Secret(pgtest.Password))
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	var lines [][]byte
	for _, line := range sampleEvents(t) {
		lines = append(lines, []byte(line))
	}
	if err := sink.Send(t.Context(), ship.NewBatch("edge-1", "1", lines...)); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), server.URL()+"?timezone=America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var got [][]string
	for _, query := range queries {
		rows, err := conn.Query(t.Context(), query)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		texts, err := pgx.CollectRows(rows, rowText)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		got = append(got, texts)
	}
	checkRows(t, queries, got)
}

// postgresAddress is the address of PostgreSQL by default.
const postgresAddress = "127.0.0.1:5432"

// startPostgres starts a PostgreSQL with the user and the database that a page has, and returns its address.
func startPostgres(t *testing.T) string {
	t.Helper()
	server := pgtest.Start(t)
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, statement := range []string{"create role colonnade login password 'colonnade'", "create database colonnade owner colonnade"} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return server.Address()
}

// rowText returns a row as wantRows has it.
func rowText(row pgx.CollectableRow) (string, error) {
	values, err := row.Values()
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = valueText(v)
	}
	return strings.Join(texts, "|"), err
}

func valueText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64)
	case time.Time:
		if v.Truncate(24 * time.Hour).Equal(v) { // a date
			return v.Format(time.DateOnly)
		}
		return v.UTC().Format("2006-01-02 15:04:05.000000")
	case pgtype.Numeric: // the sum of integers
		text, err := v.MarshalJSON()
		if err == nil {
			return string(text)
		}
	}
	return fmt.Sprint(v)
}
