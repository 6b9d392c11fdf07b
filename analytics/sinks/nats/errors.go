package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// sendTimeout bounds a batch. One that is not acknowledged by then comes again.
const sendTimeout = 30 * time.Second

// messageTooLong is the code of a stream's answer to a message that is longer than it allows. The library has no name for it.
const messageTooLong = 10054

// isRejected reports whether the stream will never take a message.
func isRejected(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == messageTooLong
}

// explain adds the setting that an error is about, its value, and what to do.
func (s settings) explain(err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("subject %s at %s: no stream of JetStream has it: %w; create one with: nats stream add EVENTS --subjects %s",
			s.subject, s.servers, err, s.subject)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Errorf("user=%s at %s: %w; check what credential names: the password of the user in the URL, or without a user a token",
			s.user, s.servers, err)
	case errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Errorf("subject %s at %s: %w; let the user publish to it", s.subject, s.servers, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("subject %s at %s: not acknowledged within %v: %w", s.subject, s.servers, sendTimeout, err)
	}
	return fmt.Errorf("%s: %w", s.servers, err)
}
