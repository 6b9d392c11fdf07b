package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// isRejected reports whether the broker will never take a record.
func isRejected(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.InvalidRecord) || errors.Is(err, kerr.RecordListTooLarge)
}

// explain adds the setting that an error is about, its value, and what to do.
func (s settings) explain(err error) error {
	brokers := strings.Join(s.brokers, ",")
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("topic %s at %s: %w; create it with: kafka-topics --create --topic %s --bootstrap-server %s", s.topic, brokers, err, s.topic, s.brokers[0])
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Errorf("topic %s at %s: %w; allow user %s to write and describe the topic", s.topic, brokers, err, s.user)
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		return fmt.Errorf("user=%s sasl=%s at %s: %w; check the user, what credential names, and sasl", s.user, s.mechanism, brokers, err)
	case errors.Is(err, kerr.InvalidTimestamp):
		return fmt.Errorf("topic %s at %s: %w: the topic refuses events that are this old; raise its message.timestamp.before.max.ms", s.topic, brokers, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("topic %s at %s: not acknowledged: %w; check the address, tls=%v, user=%s, sasl=%s and what credential names, since brokers may just end a connection that they refuse",
			s.topic, brokers, err, s.tls != nil, s.user, s.mechanism)
	}
	return fmt.Errorf("topic %s at %s: %w", s.topic, brokers, err)
}
