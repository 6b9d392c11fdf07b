package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// wrongTableError says that the table is not one of events.
type wrongTableError struct{ err error }

func (e wrongTableError) Error() string { return e.err.Error() }

// SQLSTATEs that say something about rows or about the table.
const (
	notNullViolation = "23502"
	checkViolation   = "23514"
	raised           = "P0001" // by a trigger
)

// isRejected reports whether an error of an insert says that the server refuses the rows themselves: a value that it cannot store, or a
// constraint. A column that an operator has added, and a partition that is missing, are no fault of the rows.
func isRejected(err error) bool {
	code := stateOf(err)
	if code == notNullViolation || lacksPartition(err) {
		return false
	}
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") || code == raised
}

// lacksPartition reports whether the table has no partition for a row. The server reports this as a violated check without a name.
func lacksPartition(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == checkViolation && server.ConstraintName == ""
}

// stateOf returns the SQLSTATE of an error, or an empty string if the server has not sent it.
func stateOf(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code
	}
	return ""
}

// explain adds the setting that an error is about, its value, and what to do.
func (s *Sink) explain(err error) error {
	var wrong wrongTableError
	if errors.As(err, &wrong) {
		return err
	}
	if lacksPartition(err) {
		return fmt.Errorf("%s: the table has no partition for the time of some events: %w; create the partition, or a default one", s.table.setting(), err)
	}
	switch stateOf(err) {
	case notNullViolation:
		return fmt.Errorf("%s: %w; drop its not null", s.table.setting(), err)
	case "28P01", "28000":
		if s.password == nil {
			return fmt.Errorf("user=%s: %w; set credential=env:NAME or credential=file:PATH to the password, and check pg_hba.conf of the server", s.config.User, err)
		}
		return fmt.Errorf("user=%s: %w; check what credential names, and pg_hba.conf of the server", s.config.User, err)
	case "3D000":
		return fmt.Errorf("database=%s: %w; create it with: createdb %s", s.config.Database, err, s.config.Database)
	case "3F000":
		return fmt.Errorf("%s: %w; create it with: create schema %s", s.table.setting(), err, s.table.schema)
	case "42501":
		return fmt.Errorf("%s: %w; user %s needs usage and create on the schema, or insert and select on the table, and temporary on the database",
			s.table.setting(), err, s.config.User)
	case "42P10":
		return fmt.Errorf("%s: the table has no unique index on (event_id, phase, time), by which repeated events are found: %w; create one, or set another table",
			s.table.setting(), err)
	case "":
		return fmt.Errorf("%s:%d: %w", s.config.Host, s.config.Port, err)
	}
	return fmt.Errorf("%s: %w", s.table.setting(), err)
}
