package clickhouse

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"colonnade/analytics/columns"
)

// table is the name of a table, and of its database.
type table struct{ database, name string }

// String returns the name as SQL has it.
func (t table) String() string { return "`" + t.database + "`.`" + t.name + "`" }

// setting returns the name as the setting has it.
func (t table) setting() string { return "table=" + t.name }

// ensure makes the table if it is not there, and adds the columns that it lacks since an older version has made it. Several processes may do
// so at once.
func (t table) ensure(ctx context.Context, conn driver.Conn) error {
	found, err := t.read(ctx, conn)
	if errors.Is(err, sql.ErrNoRows) {
		if err := conn.Exec(ctx, t.statement()); err != nil {
			return fmt.Errorf("cannot create the table: %w", err)
		}
		found, err = t.read(ctx, conn) // another process may have been faster
	}
	if err != nil {
		return err
	}
	return t.upgrade(ctx, conn, found)
}

// read returns the table as it is, or sql.ErrNoRows.
func (t table) read(ctx context.Context, conn driver.Conn) (columns.Table, error) {
	found := columns.Table{Columns: map[string]string{}}
	var engine, order string
	err := conn.QueryRow(ctx, "select engine, sorting_key, comment from system.tables where database = ? and name = ?", t.database, t.name).
		Scan(&engine, &order, &found.Comment)
	if err != nil {
		return found, err
	}
	if err := checkEngine(engine, order); err != nil {
		return found, t.wrong(err)
	}
	rows, err := conn.Query(ctx, "select name, type from system.columns where database = ? and table = ?", t.database, t.name)
	if err != nil {
		return found, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name, typ string
		if err := rows.Scan(&name, &typ); err != nil {
			return found, err
		}
		found.Columns[name] = typ
	}
	return found, rows.Err()
}

var word = regexp.MustCompile(`\w+`)

// checkEngine refuses a table that would keep repeated events, or take different ones for the same.
func checkEngine(engine, order string) error {
	if !strings.HasSuffix(engine, "ReplacingMergeTree") {
		return fmt.Errorf("its engine is %s, which keeps repeated events; it must be ReplacingMergeTree, or its replicated form", engine)
	}
	sorted := map[string]bool{}
	for _, name := range word.FindAllString(order, -1) {
		sorted[name] = true
	}
	if !sorted["event_id"] || !sorted["phase"] {
		return fmt.Errorf("it is ordered by (%s), so that different events would replace each other; the order must have event_id and phase", order)
	}
	return nil
}

// statement returns the SQL that makes the table. An event that comes again has the same time, so it is in the same partition, where it is
// collapsed.
func (t table) statement() string {
	var definitions []string
	for _, c := range columns.All() {
		definitions = append(definitions, c.Name+" "+typeOf(c))
	}
	return fmt.Sprintf(`create table if not exists %s (
  %s
) engine = ReplacingMergeTree partition by toYYYYMM(time) order by (time, event_id, phase)
settings non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1
comment '%s'`, t, strings.Join(definitions, ",\n  "), columns.Comment())
}

func (t table) upgrade(ctx context.Context, conn driver.Conn, found columns.Table) error {
	missing, err := found.Missing(typeOf)
	if err != nil {
		return t.wrong(err)
	}
	for _, c := range missing {
		if err := t.add(ctx, conn, c); err != nil {
			return err
		}
	}
	if !found.Older() {
		return nil
	}
	return conn.Exec(ctx, fmt.Sprintf("alter table %s modify comment '%s'", t, columns.Comment()))
}

func (t table) add(ctx context.Context, conn driver.Conn, c columns.Column) error {
	if err := conn.Exec(ctx, fmt.Sprintf("alter table %s add column if not exists %s %s", t, c.Name, typeOf(c))); err != nil {
		return fmt.Errorf("cannot add the column %s to the table: %w", c.Name, err)
	}
	return nil
}

// typeOf returns the type of a column as ClickHouse names it.
func typeOf(c columns.Column) string {
	typ := "String"
	switch c.Type {
	case columns.Texts:
		return "Array(String)"
	case columns.Flag:
		return "Bool"
	case columns.Time:
		typ = "DateTime64(6, 'UTC')"
	case columns.Integer:
		typ = "Int64"
	case columns.Number:
		typ = "Float64"
	}
	if c.Optional {
		return "Nullable(" + typ + ")"
	}
	return typ
}

// wrong says what to do about a table that is not one of events.
func (t table) wrong(err error) error {
	return wrongTableError{fmt.Errorf("%s: %w; set table=NAME to a table that is not there yet, which the sink then makes, or rename this one", t.setting(), err)}
}
