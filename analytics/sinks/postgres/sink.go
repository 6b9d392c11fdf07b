package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"colonnade/analytics/columns"
	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
)

const (
	// connectTimeout bounds the beginning of a connection.
	connectTimeout = 10 * time.Second
	// sendTimeout bounds a batch. A server that takes longer has it rolled back, and gets it again.
	sendTimeout = time.Minute
	// temporary is the table of one connection that has a batch before the table of events has it.
	temporary = "colonnade_batch"
)

// Sink writes events into a table.
type Sink struct {
	ship.Receiver

	config   *pgx.ConnConfig
	table    table
	password func() (string, error) // nil = there is none, or the environment has it

	conn *pgx.Conn // nil = none; its table of events and its temporary table are there
}

// Open returns the sink of a description. It checks the settings.
func Open(spec *sinks.Spec, env sinks.Environment) (*Sink, error) {
	config, err := connConfig(spec)
	if err != nil {
		return nil, err
	}
	t, err := parseTable(spec.Param("table", "colonnade_events"))
	if err != nil {
		return nil, err
	}
	return &Sink{config: config, table: t, password: env.Credential}, nil
}

// Check implements ship.Sink: it makes the table, or looks at it.
func (s *Sink) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := s.connect(ctx); err != nil {
		return s.explain(err)
	}
	return nil
}

// Send implements ship.Sink. It returns once the transaction is committed.
func (s *Sink) Send(ctx context.Context, b *ship.Batch) error {
	events, err := b.Events()
	if err != nil {
		return err
	}
	rows := make([][]any, len(events))
	for i := range events {
		for _, c := range columns.All() {
			rows[i] = append(rows[i], c.Value(&events[i]))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := s.connect(ctx); err != nil {
		return s.explain(err)
	}
	err = s.insert(ctx, rows)
	switch {
	case isRejected(err):
		return ship.Rejected(fmt.Errorf("%s: %w", s.table.setting(), err))
	case err != nil:
		s.disconnect() // also after another table was put in place of ours: the next connection looks at it again
		return s.explain(err)
	}
	return nil
}

// connect makes a connection and the tables, unless they are there.
func (s *Sink) connect(ctx context.Context) error {
	if s.conn != nil && !s.conn.IsClosed() {
		return nil
	}
	config := s.config.Copy()
	if s.password != nil {
		password, err := s.password()
		if err != nil {
			return err
		}
		config.Password = password
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	s.conn = conn
	if err := s.prepare(ctx); err != nil {
		s.disconnect()
		return err
	}
	return nil
}

// prepare makes the table of events if it is not there, and the temporary table.
func (s *Sink) prepare(ctx context.Context) error {
	if err := s.table.ensure(ctx, s.conn); err != nil {
		return err
	}
	create := fmt.Sprintf("create temporary table %s on commit delete rows as select %s from %s with no data",
		temporary, columnList(), s.table)
	if _, err := s.conn.Exec(ctx, create); err != nil {
		return err
	}
	_, err := s.conn.Exec(ctx, "explain "+s.move()) // plans it, and so finds what is wrong with the table, and with our privileges
	return err
}

// insert writes rows, without those that the table has.
func (s *Sink) insert(ctx context.Context, rows [][]any) error {
	tx, err := s.conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // nothing once it is committed
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{temporary}, columns.Names(columns.All()), pgx.CopyFromRows(rows)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, s.move()); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// move returns the statement that takes the rows of the temporary table into the table of events.
func (s *Sink) move() string {
	return fmt.Sprintf("insert into %s (%s) select %s from %s on conflict (%s) do nothing",
		s.table, columnList(), columnList(), temporary, strings.Join(columns.Key(), ", "))
}

// columnList returns the names of all columns; none needs quotes.
func columnList() string { return strings.Join(columns.Names(columns.All()), ", ") }

func (s *Sink) disconnect() {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx)
	s.conn = nil
}

// Close implements ship.Sink.
func (s *Sink) Close() error {
	s.disconnect()
	return nil
}
