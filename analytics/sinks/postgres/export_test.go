package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"colonnade/analytics/columns"
)

// Upgrade takes a column away from a table, and adds it as a version would with which the column came.
func Upgrade(t *testing.T, conn *pgx.Conn, name, column string) {
	t.Helper()
	at := table{name: name}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "alter table "+at.String()+" drop column "+column); err != nil {
		t.Fatal(err)
	}
	for _, c := range columns.All() {
		if c.Name == column {
			if err := at.add(t.Context(), tx, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}
