package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"colonnade/analytics/columns"
)

// lock is the advisory lock that a process holds while it makes or changes a table: the name of this program in ASCII.
const lock = 0x636f6c6f6e6e6164

// ensure makes the table if it is not there, and adds the columns that it lacks since an older version has made it.
func (t table) ensure(ctx context.Context, conn *pgx.Conn) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // nothing once it is committed
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", int64(lock)); err != nil {
		return err
	}
	found, err := t.read(ctx, tx)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = t.create(ctx, tx)
	case err == nil:
		if err = t.upgrade(ctx, tx, found); err == nil {
			err = t.checkAdded(ctx, tx)
		}
	}
	if err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// read returns the table as it is, or pgx.ErrNoRows.
func (t table) read(ctx context.Context, tx pgx.Tx) (columns.Table, error) {
	found := columns.Table{Columns: map[string]string{}}
	var kind string
	err := tx.QueryRow(ctx, `select relkind::text, coalesce(obj_description(oid, 'pg_class'), '') from pg_class where oid = to_regclass($1)`,
		t.String()).Scan(&kind, &found.Comment)
	if err != nil {
		return found, err
	}
	if kind != "r" && kind != "p" {
		return found, t.wrong(errors.New("it is no table"))
	}
	rows, err := tx.Query(ctx, `select attname, format_type(atttypid, atttypmod) from pg_attribute
		where attrelid = to_regclass($1) and attnum > 0 and not attisdropped`, t.String())
	if err != nil {
		return found, err
	}
	var name, typ string
	_, err = pgx.ForEachRow(rows, []any{&name, &typ}, func() error {
		found.Columns[name] = typ
		return nil
	})
	return found, err
}

// checkAdded refuses columns of an operator for which the sink would have to have a value.
func (t table) checkAdded(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `select attname from pg_attribute where attrelid = to_regclass($1) and attnum > 0 and not attisdropped
		and attnotnull and not atthasdef and attidentity = '' and attname <> all($2)`, t.String(), columns.Names(columns.All()))
	if err != nil {
		return err
	}
	needed, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(needed) == 0 {
		return err
	}
	return wrongTableError{fmt.Errorf("%s: events have no value for the columns %s, which are not null and have no default: give each a default, or drop its not null",
		t.setting(), strings.Join(needed, ", "))}
}

func (t table) create(ctx context.Context, tx pgx.Tx) error {
	for _, statement := range t.statements() {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("cannot create the table: %w", err)
		}
	}
	var timescale bool
	if err := tx.QueryRow(ctx, "select exists (select from pg_extension where extname = 'timescaledb')").Scan(&timescale); err != nil || !timescale {
		return err
	}
	if _, err := tx.Exec(ctx, "select create_hypertable($1::text::regclass, 'time')", t.String()); err != nil {
		return fmt.Errorf("cannot make the table a hypertable of TimescaleDB: %w", err)
	}
	return nil
}

// statements returns the SQL that makes the table.
func (t table) statements() []string {
	var definitions []string
	for _, c := range columns.All() {
		definitions = append(definitions, definition(c))
	}
	definitions = append(definitions, "primary key ("+strings.Join(columns.Key(), ", ")+")")
	return []string{
		fmt.Sprintf("create table %s (\n  %s\n)", t, strings.Join(definitions, ",\n  ")),
		fmt.Sprintf("create index on %s (time)", t),
		fmt.Sprintf("create index on %s (account, time)", t),
		fmt.Sprintf("comment on table %s is '%s'", t, columns.Comment()),
	}
}

func (t table) upgrade(ctx context.Context, tx pgx.Tx, found columns.Table) error {
	missing, err := found.Missing(typeOf)
	if err != nil {
		return t.wrong(err)
	}
	for _, c := range missing {
		if err := t.add(ctx, tx, c); err != nil {
			return err
		}
	}
	if !found.Older() {
		return nil
	}
	_, err = tx.Exec(ctx, fmt.Sprintf("comment on table %s is '%s'", t, columns.Comment()))
	return err
}

func (t table) add(ctx context.Context, tx pgx.Tx, c columns.Column) error {
	if _, err := tx.Exec(ctx, fmt.Sprintf("alter table %s add column %s", t, definition(c))); err != nil {
		return fmt.Errorf("cannot add the column %s to the table: %w", c.Name, err)
	}
	return nil
}

// definition returns a column as it stands in a create table.
func definition(c columns.Column) string {
	d := c.Name + " " + typeOf(c)
	switch {
	case c.Type == columns.Flag:
		d += " not null default false"
	case c.Type == columns.Texts:
		d += " not null default '{}'"
	case !c.Optional:
		d += " not null"
	}
	return d
}

// typeOf returns the type of a column as PostgreSQL names it.
func typeOf(c columns.Column) string {
	switch c.Type {
	case columns.Texts:
		return "text[]"
	case columns.Integer:
		return "bigint"
	case columns.Number:
		return "double precision"
	case columns.Flag:
		return "boolean"
	case columns.Time:
		return "timestamp with time zone"
	}
	return "text"
}

// wrong says what to do about a table that is not one of events.
func (t table) wrong(err error) error {
	return wrongTableError{fmt.Errorf("%s: %w; set table=NAME to a table that is not there yet, which the sink then makes, or rename this one", t.setting(), err)}
}
