package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/node"
)

// applyTimeout bounds one apply.
const applyTimeout = 30 * time.Second

func newConfig() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Work with the fleet's documents"}
	cmd.AddCommand(newApply())
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
			ctx, cancel := context.WithTimeout(cmd.Context(), applyTimeout)
			defer cancel()
			if err := etcd.Apply(ctx, client, node.Prefix, docs); err != nil {
				return fmt.Errorf("etcd at %s: %w", endpoints, err)
			}
			for _, d := range docs {
				fmt.Fprintln(cmd.OutOrStdout(), "applied", d.Key)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&endpoints, "etcd", fromEnvironment("etcd", "http://127.0.0.1:2379"), "URLs of etcd, separated by commas (COLONNADE_ETCD)")
	return cmd
}

// readDocuments reads and checks every document, and says of each that is wrong where it stands.
func readDocuments(stdin io.Reader, files []string) ([]fleet.RawDocument, error) {
	var docs []fleet.RawDocument
	for _, name := range files {
		data, err := readFile(stdin, name)
		if err != nil {
			return nil, err
		}
		own, err := fleet.SplitFile(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, d := range own {
			if err := fleet.Check(d.Key, d.Value); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		docs = append(docs, own...)
	}
	return docs, nil
}

func readFile(stdin io.Reader, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}
