package onebox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"colonnade/discovery/files"
	"colonnade/fleet/document"
	"colonnade/node"
)

// DocumentFile is the name of the file, in [Fleet.Documents], with the documents that the fleet has when it starts.
const DocumentFile = "fleet.yaml"

// checkServe returns an error if the fleet is to be one process, and wants more than that can be.
func (c *Config) checkServe() error {
	if c.Serve && (len(c.Colos) != 1 || c.serversOf(c.Colos[0]) != 1 || c.Latency != nil || c.EtcdURL != "" || c.PeerTLS != nil) {
		return errors.New("one process serves one colo with one server, and has neither an etcd nor connections to other nodes")
	}
	return nil
}

// startServe starts one process for the only colo, with documents in a file.
func (b *allInOne) startServe(ctx context.Context, docs []document.Raw) error {
	if err := b.writeDocuments(docs); err != nil {
		return err
	}
	colo := b.config.Colos[0]
	name := ServerName(colo, 1)
	config := node.ServeConfig{
		Config: b.node(name, colo, b.config.Listen, b.adminAddress()), Colo: colo, Documents: b.fleet.Documents,
		Open: b.config.Open, TLS: b.config.TLS, MaxConnsPerIP: b.connsPerIP(),
	}
	b.fleet.secure = b.config.TLS.Cert != ""
	b.progress("starting the process")
	err := b.run(name, func(ctx context.Context, ready func()) error {
		return node.RunServe(ctx, config, func(r node.Running) {
			b.fleet.Entry, b.fleet.Colos = r, []ColoNode{{colo, r}}
			ready()
		})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return b.awaitReady(ctx)
}

// writeDocuments writes the documents with which the process starts.
func (b *allInOne) writeDocuments(docs []document.Raw) error {
	text, err := document.JoinFile(docs)
	if err != nil {
		return err
	}
	b.fleet.Documents = filepath.Join(b.fleet.Dir, "documents")
	if err := os.MkdirAll(b.fleet.Documents, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.fleet.Documents, DocumentFile), text, 0o600)
}

// editFiles puts documents into the files of a path.
func editFiles(ctx context.Context, path string, docs []document.Raw) error {
	_, err := files.Edit(ctx, path, func(there []files.Located) ([]files.Located, error) {
		for _, d := range docs {
			if i := slices.IndexFunc(there, func(old files.Located) bool { return old.Key == d.Key }); i >= 0 {
				there[i].Raw = d
			} else {
				there = append(there, files.Located{Raw: d})
			}
		}
		return there, nil
	})
	return err
}
