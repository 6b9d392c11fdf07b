package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
)

// storeTimeout bounds one command.
const storeTimeout = 30 * time.Second

// store is the etcd that a command works with.
type store struct {
	endpoints string // URLs, separated by commas
}

// storeFlag adds the flag -etcd to a command.
func storeFlag(cmd *cobra.Command) *store {
	s := &store{}
	cmd.Flags().StringVar(&s.endpoints, "etcd", fromEnvironment("etcd", "http://127.0.0.1:2379"),
		"URLs of etcd, separated by commas (COLONNADE_ETCD)")
	return s
}

// use gives a client to work, which has until the end of the command's time. It says where the etcd is that failed, or
// did not answer.
func (s *store) use(ctx context.Context, work func(context.Context, *etcd.Client) error) error {
	client, err := etcd.Dial(strings.Split(s.endpoints, ","))
	if err != nil {
		return fmt.Errorf("flag -etcd: %w", err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return etcdError(s.endpoints, work(ctx, client))
}

// refusal is why a command does not do what was asked, though etcd would.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

// etcdError leaves alone what is wrong with a document, wherever that stands, and what is refused.
func etcdError(endpoints string, err error) error {
	var invalid *document.InvalidError
	var refused *refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid), errors.As(err, &refused), errors.Is(err, etcd.ErrExists):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("etcd at %s does not answer; say where it is with -etcd or COLONNADE_ETCD: %w", endpoints, err)
	}
	return fmt.Errorf("etcd at %s: %w", endpoints, err)
}
