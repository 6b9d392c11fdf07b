package registration

import (
	"context"
	"fmt"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/homes"
	"colonnade/internal/ctxtime"
)

// secondLook is how much later the records are read again when none mentions the engine: longer than a server takes to put its record after
// it has read a document.
const secondLook = 250 * time.Millisecond

// inFlight is InFlight of the [worker.Registry].
func (r *registry) inFlight(ctx context.Context) (int, error) {
	newest, _ := r.current()
	if newest.Endpoint.Key == "" || r.unseen() {
		return 0, nil
	}
	e, err := endpointOf(newest.Endpoint)
	if err != nil {
		return 0, err
	}
	n, err := r.recorded(ctx, e.URL)
	if err != nil || n > 0 {
		return n, err
	}
	if !ctxtime.Sleep(ctx, secondLook) {
		return 0, fmt.Errorf("the records of the colo's servers were read only once: %w", context.Cause(ctx))
	}
	return r.recorded(ctx, e.URL)
}

// recorded returns how many requests the colo's servers may have on an engine by their records as they stand.
func (r *registry) recorded(ctx context.Context, url string) (int, error) {
	records, err := etcd.ListRecords(ctx, r.c.Client, etcd.DefaultPrefix, r.c.Colo)
	if err != nil {
		return 0, err
	}
	return inRecords(records, url), nil
}

// inRecords counts the requests on an engine. A server that may grant on it does not say how many it has, so it counts as one. The
// readable part of a broken record counts, as for the other servers.
func inRecords(records []homes.Record, url string) (n int) {
	for _, r := range records {
		if _, owns := r.Owns[url]; owns {
			n++
		}
		n += r.Held[url]
	}
	return n
}
