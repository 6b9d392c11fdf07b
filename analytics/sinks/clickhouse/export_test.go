package clickhouse

import (
	"slices"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"

	"colonnade/analytics/columns"
	"colonnade/internal/clickhousetest"
)

// Upgrade takes a column away from the table, and adds it as a version would with which the column came.
func Upgrade(t *testing.T, address, column string) {
	t.Helper()
	conn, err := clickhouse.Open(&clickhouse.Options{
		Protocol: clickhouse.HTTP, Addr: []string{address},
		Auth: clickhouse.Auth{Database: "colonnade", Username: clickhousetest.User, Password: clickhousetest.Password},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	at := table{"colonnade", "colonnade_events"}
	if err := conn.Exec(t.Context(), "alter table "+at.String()+" drop column "+column); err != nil {
		t.Fatal(err)
	}
	i := slices.Index(columns.Names(columns.All()), column)
	if err := at.add(t.Context(), conn, columns.All()[i]); err != nil {
		t.Fatal(err)
	}
}
