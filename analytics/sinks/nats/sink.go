package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"colonnade/analytics"
	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
)

// connectTimeout bounds the beginning of a connection.
const connectTimeout = 10 * time.Second

// Sink publishes events.
type Sink struct {
	ship.Receiver

	settings settings
	secret   func() (string, error) // nil = none

	conn   *nats.Conn // nil = none
	stream jetstream.JetStream
	denied *denial
}

// Open returns the sink of a description. It checks the settings.
func Open(spec *sinks.Spec, env sinks.Environment) (*Sink, error) {
	s, err := parse(spec)
	if err != nil {
		return nil, err
	}
	return &Sink{settings: s, secret: env.Credential}, nil
}

// Check implements ship.Sink: it connects. Whether a stream has the subject, only a message shows.
func (s *Sink) Check(ctx context.Context) error { return s.connect(ctx) }

// Send implements ship.Sink. It returns once each event is acknowledged.
func (s *Sink) Send(ctx context.Context, b *ship.Batch) error {
	events, err := b.Events()
	if err != nil {
		return err
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err = s.publish(ctx, b, events)
	var rejected *ship.RejectedError
	if err != nil && !errors.As(err, &rejected) {
		s.disconnect()
	}
	return err
}

// publish sends all events, and waits for their acknowledgements.
func (s *Sink) publish(ctx context.Context, b *ship.Batch, events []analytics.Event) error {
	refused := &ship.RejectedError{}
	refuse := func(i int, err error) {
		refused.Events, refused.Err = append(refused.Events, i), fmt.Errorf("subject %s: %w", s.settings.subject, err)
	}
	sent := make([]jetstream.PubAckFuture, b.Len())
	for i, line := range b.Lines() {
		m := &nats.Msg{Subject: s.settings.subject, Data: line}
		future, err := s.stream.PublishMsgAsync(m, jetstream.WithMsgID(events[i].EventID+"-"+string(events[i].Phase)))
		switch {
		case errors.Is(err, nats.ErrMaxPayload):
			// It is counted below, in the order of the events.
		case err != nil:
			return s.settings.explain(err)
		}
		sent[i] = future
	}
	for i, future := range sent {
		if future == nil {
			refuse(i, nats.ErrMaxPayload)
			continue
		}
		select {
		case <-future.Ok():
		case err := <-future.Err():
			if !isRejected(err) {
				return s.settings.explain(err)
			}
			refuse(i, err)
		case <-s.denied.given:
			return s.settings.explain(s.denied.reason())
		case <-ctx.Done():
			return s.settings.explain(ctx.Err())
		}
	}
	if len(refused.Events) > 0 {
		return refused
	}
	return nil
}

// connect makes a connection, unless there is one, or gives up when ctx is done.
func (s *Sink) connect(ctx context.Context) error {
	if s.conn != nil && s.conn.IsConnected() {
		return nil
	}
	s.disconnect()
	options, err := s.settings.options(s.secret)
	if err != nil {
		return err
	}
	denied, dial := &denial{given: make(chan struct{})}, &dialer{ctx: ctx}
	options = append(options, nats.Name("colonnade"), nats.NoReconnect(), nats.Timeout(connectTimeout), nats.SetCustomDialer(dial), nats.SkipHostLookup(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied.set(err) }),
		nats.ClosedHandler(func(c *nats.Conn) { denied.set(cmp.Or(c.LastError(), nats.ErrConnectionClosed)) }))
	conn, err := nats.Connect(s.settings.servers, options...)
	dial.keep()
	if err != nil {
		return s.settings.explain(err)
	}
	stream, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(sinks.MaxBatchEvents)) // else the client gives up a longer batch after 200 ms
	if err != nil {
		conn.Close()
		return s.settings.explain(err)
	}
	s.conn, s.stream, s.denied = conn, stream, denied
	return nil
}

func (s *Sink) disconnect() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

// Close implements ship.Sink.
func (s *Sink) Close() error {
	s.disconnect()
	return nil
}

// denial is an error of no message in particular: the user may not publish to the subject, or the connection has ended.
type denial struct {
	given chan struct{} // closed once there is one

	mu  sync.Mutex // guards the field below
	err error
}

func (d *denial) set(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = err
		close(d.given)
	}
}

func (d *denial) reason() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}
