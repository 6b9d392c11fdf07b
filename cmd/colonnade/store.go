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

// action returns the action of a command that works with etcd, within storeTimeout.
func (s *store) action(work func(context.Context, *cli.Command, *etcd.Client) error) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		client, err := s.dial()
		if err != nil {
			return err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		return etcdError(s.endpoints, work(ctx, cmd, client))
	}
}

// etcdError says which etcd did not answer.
func etcdError(endpoints string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("etcd at %s does not answer; set its URLs with -etcd or COLONNADE_ETCD: %w", endpoints, err)
	}
	return err
}
