package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
)

// sendTimeout bounds a batch. One that is not acknowledged by then comes again.
const sendTimeout = 15 * time.Second

// Sink produces events.
type Sink struct {
	ship.Receiver

	settings settings
	secret   func() (string, error) // nil = none

	client *kgo.Client // nil = none
}

// Open returns the sink of a description. It checks the settings.
func Open(spec *sinks.Spec, env sinks.Environment) (*Sink, error) {
	s, err := parse(spec, env.Credential != nil)
	if err != nil {
		return nil, err
	}
	return &Sink{settings: s, secret: env.Credential}, nil
}

// Check implements ship.Sink: it asks the brokers for the topic.
func (s *Sink) Check(ctx context.Context) error {
	if err := s.connect(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(s.settings.topic)
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, s.client)
	if err == nil && len(answer.Topics) == 1 {
		err = kerr.ErrorForCode(answer.Topics[0].ErrorCode)
	}
	if err != nil {
		s.disconnect()
		return s.settings.explain(err)
	}
	return nil
}

// Send implements ship.Sink. It returns once each event is acknowledged.
func (s *Sink) Send(ctx context.Context, b *ship.Batch) error {
	events, err := b.Events()
	if err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	records := make([]*kgo.Record, b.Len())
	for i, line := range b.Lines() {
		records[i] = &kgo.Record{Topic: s.settings.topic, Key: []byte(events[i].EventID), Value: line, Timestamp: events[i].Time}
	}
	results := s.client.ProduceSync(ctx, records...)
	err = s.outcome(records, results)
	var rejected *ship.RejectedError
	if err != nil && !errors.As(err, &rejected) {
		s.disconnect() // with whatever the client still has of the batch, which comes again
	}
	return err
}

// outcome returns what the results of all records say about the batch. They are in no order.
func (s *Sink) outcome(records []*kgo.Record, results kgo.ProduceResults) error {
	failed := map[*kgo.Record]error{}
	for _, r := range results {
		if r.Err == nil {
			continue
		}
		if !isRejected(r.Err) {
			return s.settings.explain(r.Err)
		}
		failed[r.Record] = r.Err
	}
	refused := &ship.RejectedError{}
	for i, r := range records {
		if err := failed[r]; err != nil {
			refused.Events, refused.Err = append(refused.Events, i), fmt.Errorf("topic %s: %w", s.settings.topic, err)
		}
	}
	switch {
	case len(refused.Events) == 0:
		return nil
	case len(refused.Events) > 1:
		// A broker refuses all records that came for a partition at once, for one of them or for the sum of them.
		return ship.Rejected(refused.Err)
	}
	return refused
}

// connect makes a client, unless there is one. The client connects by itself.
func (s *Sink) connect() error {
	if s.client != nil {
		return nil
	}
	options, err := s.settings.options(s.secret)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return s.settings.explain(err)
	}
	s.client = client
	return nil
}

func (s *Sink) disconnect() {
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
}

// Close implements ship.Sink.
func (s *Sink) Close() error {
	s.disconnect()
	return nil
}
