package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/node"
)

// configTimeout bounds one command.
const configTimeout = 30 * time.Second

func newConfig() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Work with the fleet's documents"}
	cmd.AddCommand(newApply(), newDelete())
	return cmd
}

func newApply() *cobra.Command {
	var endpoints string
	cmd := &cobra.Command{
		Use:   "apply FILE…",
		Short: "Check documents and write them to etcd; - is standard input",
		Long:  "Each FILE holds YAML documents, separated by ---, each with a key. All are checked before any is written.",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			docs, err := readDocuments(cmd.InOrStdin(), files)
			if err != nil {
				return err
			}
			client, err := etcd.Dial(strings.Split(endpoints, ","))
			if err != nil {
				return fmt.Errorf("flag -etcd: %w", err)
			}
			defer client.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), configTimeout)
			defer cancel()
			if err := etcd.Apply(ctx, client, node.Prefix, docs); err != nil {
				return etcdError(endpoints, err)
			}
			for _, d := range docs {
				fmt.Fprintln(cmd.OutOrStdout(), "applied", d.Key)
			}
			return nil
		},
	}
	etcdFlag(cmd, &endpoints)
	return cmd
}

func newDelete() *cobra.Command {
	var endpoints string
	cmd := &cobra.Command{
		Use:   "delete KEY…",
		Short: "Delete documents from etcd",
		Long:  "Each KEY is that of a document, such as models/llama or endpoints/ams/gpu-7.",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, keys []string) error {
			if err := checkKeys(keys); err != nil {
				return err
			}
			client, err := etcd.Dial(strings.Split(endpoints, ","))
			if err != nil {
				return fmt.Errorf("flag -etcd: %w", err)
			}
			defer client.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), configTimeout)
			defer cancel()
			found, err := etcd.Delete(ctx, client, node.Prefix, keys)
			for _, key := range keys {
				switch {
				case slices.Contains(found, key):
					fmt.Fprintln(cmd.OutOrStdout(), "deleted", key)
				case err == nil:
					fmt.Fprintln(cmd.OutOrStdout(), key, "was not there")
				}
			}
			return etcdError(endpoints, err)
		},
	}
	etcdFlag(cmd, &endpoints)
	return cmd
}

func checkKeys(keys []string) error {
	var bad []error
	for _, key := range keys {
		bad = append(bad, fleet.CheckKey(key))
	}
	return errors.Join(bad...)
}

func etcdFlag(cmd *cobra.Command, endpoints *string) {
	cmd.Flags().StringVar(endpoints, "etcd", fromEnvironment("etcd", "http://127.0.0.1:2379"), "URLs of etcd, separated by commas (COLONNADE_ETCD)")
}

// etcdError says where the etcd is that failed, or did not answer.
func etcdError(endpoints string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("etcd at %s does not answer; say where it is with -etcd or COLONNADE_ETCD: %w", endpoints, err)
	}
	return fmt.Errorf("etcd at %s: %w", endpoints, err)
}

// readDocuments reads and checks every document, and says of each that is wrong where it stands.
func readDocuments(stdin io.Reader, files []string) ([]fleet.RawDocument, error) {
	r := reader{stdin: stdin, seen: map[string]string{}}
	for _, name := range files {
		r.read(name)
	}
	return r.docs, errors.Join(r.failed...)
}

type reader struct {
	stdin  io.Reader
	seen   map[string]string // by key, the file that has it
	docs   []fleet.RawDocument
	failed []error
}

func (r *reader) read(name string) {
	data, err := r.data(name)
	if err != nil {
		r.failed = append(r.failed, err) // it names the file
		return
	}
	if name == "-" {
		name = "standard input"
	}
	docs, err := fleet.SplitFile(data)
	if err == nil && len(docs) == 0 {
		r.failed = append(r.failed, fmt.Errorf("no documents in %s", name))
	}
	for _, e := range eachOf(err) {
		r.failed = append(r.failed, fmt.Errorf("%s: %w", name, e))
	}
	for _, d := range docs {
		if err := fleet.Check(d.Key, d.Value); err != nil {
			r.failed = append(r.failed, fmt.Errorf("%s: %w", name, err))
		}
		if first, twice := r.seen[d.Key]; twice {
			r.failed = append(r.failed, fmt.Errorf("%s: %s: the key is given twice (first in %s)", name, d.Key, first))
			continue
		}
		r.seen[d.Key] = name
	}
	r.docs = append(r.docs, docs...)
}

func (r *reader) data(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(r.stdin)
	}
	return os.ReadFile(name)
}

// eachOf takes apart what errors.Join has put together.
func eachOf(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}
