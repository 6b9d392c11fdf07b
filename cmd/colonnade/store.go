package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
)

// storeTimeout bounds one command.
const storeTimeout = 30 * time.Second

// store says where a command finds the documents: in etcd, or in files.
type store struct {
	endpoints string // URLs of etcd, separated by commas
	path      string // of a file, or of a directory with files; empty = etcd
}

// etcdFlag is the flag of commands that need etcd.
func (s *store) etcdFlag() cli.Flag { return command.EtcdFlag(&s.endpoints) }

// configFlag is the flag of commands that also work with files.
func (s *store) configFlag() cli.Flag {
	return &cli.StringFlag{Name: "config", Destination: &s.path,
		Usage: "`PATH` of a file of documents, or of a directory with such files, as for colonnade serve, instead of etcd"}
}

func (s *store) dial() (*etcd.Client, error) {
	client, err := etcd.Dial(strings.Split(s.endpoints, ","))
	if err != nil {
		return nil, fmt.Errorf("flag -etcd: %w", err)
	}
	return client, nil
}

// etcdAction returns the action of a command that works with etcd, within storeTimeout.
func (s *store) etcdAction(work func(context.Context, *cli.Command, *etcd.Client) error) cli.ActionFunc {
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

// action returns the action of a command that works with documents in etcd or in files, within storeTimeout.
func (s *store) action(work func(context.Context, *cli.Command, *change.Documents) error) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		inFiles, err := s.inFiles(cmd)
		if err != nil {
			return err
		}
		if inFiles {
			ctx, cancel := context.WithTimeout(ctx, storeTimeout)
			defer cancel()
			return work(ctx, cmd, &change.Documents{Path: s.path})
		}
		return s.etcdAction(func(ctx context.Context, cmd *cli.Command, client *etcd.Client) error {
			return work(ctx, cmd, &change.Documents{Client: client, Author: authorOf(cmd)})
		})(ctx, cmd)
	}
}

// inFiles reports whether the documents are in files. A flag goes before the environment, which may name both.
func (s *store) inFiles(cmd *cli.Command) (bool, error) {
	if s.path == "" || s.endpoints == "" || !cmd.IsSet("etcd") {
		return s.path != "", nil
	}
	byFlag := func(variable, value string) bool { return os.Getenv(variable) != value }
	path, endpoints := byFlag("COLONNADE_CONFIG", s.path), byFlag("COLONNADE_ETCD", s.endpoints)
	if path == endpoints {
		return false, errors.New("-config and -etcd (in the environment: COLONNADE_CONFIG and COLONNADE_ETCD) exclude each other: documents are in files or in etcd")
	}
	return path, nil
}

// etcdError says which etcd did not answer.
func etcdError(endpoints string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("etcd at %s does not answer; set its URLs with -etcd or COLONNADE_ETCD: %w", endpoints, err)
	}
	return err
}
