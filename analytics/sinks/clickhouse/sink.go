package clickhouse

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"colonnade/analytics"
	"colonnade/analytics/columns"
	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
)

// sendTimeout bounds a batch.
const sendTimeout = time.Minute

// Sink writes events into a table.
type Sink struct {
	ship.Receiver

	options  *clickhouse.Options // without the password
	table    table
	password func() (string, error) // nil = there is none

	conn driver.Conn // nil = none; the table is as it must be
	with string      // password of conn
}

// Open returns the sink of a description. It checks the settings.
func Open(spec *sinks.Spec, env sinks.Environment) (*Sink, error) {
	options, t, err := parse(spec)
	if err != nil {
		return nil, err
	}
	if options.Auth.Username == "" && env.Credential != nil {
		return nil, fmt.Errorf("%s: there is a credential, and no user in the URL; write for example %s", spec.URL, spec.Scheme.Example)
	}
	return &Sink{options: options, table: t, password: env.Credential}, nil
}

// Check implements ship.Sink: it makes the table, or looks at it.
func (s *Sink) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := s.connect(ctx); err != nil {
		s.disconnect()
		return s.explain(err)
	}
	return nil
}

// Send implements ship.Sink. It returns once the server has stored the batch.
func (s *Sink) Send(ctx context.Context, b *ship.Batch) error {
	events, err := b.Events()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err = s.connect(ctx); err == nil {
		err = s.insert(ctx, events, b.ID())
	}
	if err != nil {
		// Also after another table was put in place of ours, which the next connection looks at. A connection that has failed may still
		// be writing.
		s.disconnect()
		return s.explain(err)
	}
	return nil
}

// connect makes a connection and the table, unless they are there.
func (s *Sink) connect(ctx context.Context) error {
	password := ""
	if s.password != nil {
		var err error
		if password, err = s.password(); err != nil {
			return err
		}
	}
	if s.conn != nil && s.with == password {
		return nil
	}
	s.disconnect()
	options := *s.options
	options.Auth.Password = password
	conn, err := clickhouse.Open(&options)
	if err != nil {
		return err
	}
	s.conn, s.with = conn, password
	return s.table.ensure(ctx, conn)
}

// insert writes events as one block.
func (s *Sink) insert(ctx context.Context, events []analytics.Event, token string) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithColumnNamesAndTypes(namesAndTypes()),
		clickhouse.WithSettings(clickhouse.Settings{"insert_deduplicate": 1, "insert_deduplication_token": token}))
	batch, err := s.conn.PrepareBatch(ctx, fmt.Sprintf("insert into %s (%s)", s.table, strings.Join(columns.Names(columns.All()), ", ")))
	if err != nil {
		return err
	}
	defer func() { _ = batch.Close() }()
	row := make([]any, len(columns.All()))
	for i := range events {
		for j, c := range columns.All() {
			row[j] = c.Value(&events[i])
		}
		if err := batch.Append(row...); err != nil {
			return ship.Rejected(fmt.Errorf("%s: %w", s.table.setting(), err))
		}
	}
	return batch.Send()
}

// namesAndTypes returns the columns, so that the client does not ask for them.
func namesAndTypes() []clickhouse.ColumnNameAndType {
	var list []clickhouse.ColumnNameAndType
	for _, c := range columns.All() {
		list = append(list, clickhouse.ColumnNameAndType{Name: c.Name, Type: typeOf(c)})
	}
	return list
}

func (s *Sink) disconnect() {
	if s.conn == nil {
		return
	}
	_ = s.conn.Close()
	s.conn = nil
}

// Close implements ship.Sink.
func (s *Sink) Close() error {
	s.disconnect()
	return nil
}
