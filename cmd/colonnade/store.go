package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
)

// storeTimeout bounds one command.
const storeTimeout = 30 * time.Second

// store is the etcd that a command works with.
type store struct {
	endpoints string // URLs, separated by commas
}

func (s *store) flag() cli.Flag { return command.EtcdFlag(&s.endpoints) }

func (s *store) dial() (*etcd.Client, error) {
	client, err := etcd.Dial(strings.Split(s.endpoints, ","))
	if err != nil {
		return nil, fmt.Errorf("flag -etcd: %w", err)
	}
	return client, nil
}

// use calls work with a client, and a context that ends with the command's time. Its errors name the etcd that failed.
func (s *store) use(ctx context.Context, work func(context.Context, *etcd.Client) error) error {
	client, err := s.dial()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return etcdError(s.endpoints, work(ctx, client))
}

// refusedError is why a command does not do what etcd would allow.
type refusedError struct{ reason string }

func (e *refusedError) Error() string { return e.reason }

// etcdError names the etcd that failed. Errors of documents and refusals of the command stay as they are.
func etcdError(endpoints string, err error) error {
	var invalid *document.InvalidError
	var refused *refusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid), errors.As(err, &refused), errors.Is(err, etcd.ErrExists):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("etcd at %s does not answer; set its URLs with -etcd or COLONNADE_ETCD: %w", endpoints, err)
	}
	return fmt.Errorf("etcd at %s: %w", endpoints, err)
}

// sleep waits for d, and reports whether ctx is not done.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
