package registration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
)

// file returns the path of a file of this worker; "" without a directory.
func (r *registry) file(suffix string) string {
	if r.c.Dir == "" {
		return ""
	}
	return filepath.Join(r.c.Dir, url.PathEscape(r.c.Node)+suffix)
}

// lockDir locks the files of this worker, so that an earlier worker of its name that has saved its lease is known to be dead.
func (r *registry) lockDir() (unlock func(), err error) {
	if r.c.Dir == "" {
		return func() {}, nil
	}
	if err := os.MkdirAll(r.c.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("cannot make the directory for the lease: %w", err)
	}
	lock, err := os.OpenFile(r.file(".lock"), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("cannot open the lock of the worker: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("another process of this machine runs as the worker %s, since %s is locked: stop it, or give this one another -node (%w)", r.c.Node, lock.Name(), err)
	}
	return func() { _ = lock.Close() }, nil
}

// placeError says who has a place.
type placeError struct {
	text  string
	cause error
}

// Error returns the text alone, since that of the cause says less.
func (e *placeError) Error() string { return e.text }

// Unwrap returns the cause.
func (e *placeError) Unwrap() error { return e.cause }

// explain says who has the place of this worker, and what to do.
func (r *registry) explain(ctx context.Context, taken *etcd.TakenError) error {
	text := ""
	switch {
	case taken.ByHand:
		text = errByHand(taken.Holder).Error()
	case taken.Holder == fleet.KindWorker.Key(r.c.Node):
		text = fmt.Sprintf("another worker has registered %s: %s; stop it, or give this one another -node", taken.Holder, describe(r.c.Node, taken.Value))
	default:
		text = fmt.Sprintf("another worker has registered %s: %s; stop it, or give this one another -id", taken.Holder, r.holder(ctx, taken.Holder))
	}
	return &placeError{text, taken}
}

// holder describes the worker of an endpoint.
func (r *registry) holder(ctx context.Context, endpoint string) string {
	all, err := r.list(ctx, string(fleet.KindWorker)+"/")
	if err != nil {
		return fmt.Sprintf("one that cannot be looked up (%v)", err)
	}
	for _, d := range all {
		if w := workerOf(d.Value); fleet.KindEndpoint.Key(w.Colo, w.Engine.Endpoint) == endpoint {
			return describe(strings.TrimPrefix(d.Key, string(fleet.KindWorker)+"/"), d.Value)
		}
	}
	return "one without a document of its own"
}

// workerOf reads the document of a worker, without fields that cannot be read.
func workerOf(value []byte) (w fleet.Worker) {
	_ = json.Unmarshal(value, &w)
	return w
}

// describe describes a worker by its document.
func describe(node string, value []byte) string {
	w := workerOf(value)
	text := "worker " + node
	if w.Machine != "" {
		text += " on the machine " + w.Machine
	}
	if w.Admin != "" {
		text += ", admin listener " + w.Admin
	}
	return fmt.Sprintf("%s, engine %s, boot %q", text, w.Engine.URL, w.Boot)
}
