package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/wording"
)

const (
	heldTimeout = 3 * time.Second // of the question to one node
	maxHeldPage = 16 << 20        // bytes of its answer
)

// checkConfirm returns an error if a confirmation of the deletion of some keys would also confirm others, which this node or another one
// holds back. A node that does not answer is left out, as by the command line: a fleet has to be changed also while a node is away.
func (r *runtime) checkConfirm(ctx context.Context, deleted []string) error {
	nodes, err := r.adminAddresses(ctx)
	if err != nil {
		return err
	}
	held := map[string]bool{}
	for _, key := range r.watcher.State().PendingDeletions {
		held[key] = true
	}
	var mu sync.Mutex // guards held
	var asked sync.WaitGroup
	for _, address := range nodes {
		asked.Go(func() {
			keys := heldAt(ctx, address)
			mu.Lock()
			defer mu.Unlock()
			for _, key := range keys {
				held[key] = true
			}
		})
	}
	asked.Wait()
	var others []string
	for key := range held {
		if !slices.Contains(deleted, key) {
			others = append(others, key)
		}
	}
	if len(others) == 0 {
		return nil
	}
	slices.Sort(others)
	return fmt.Errorf("this would also confirm the deletion of %s, which nodes hold back: put those documents again, or confirm their deletion by "+
		"colonnade config confirm-deletions; then repeat this", wording.FirstOf(others))
}

// adminAddresses returns the addresses of the admin listeners of all registered nodes.
func (r *runtime) adminAddresses(ctx context.Context) (addresses []string, err error) {
	for _, kind := range []fleet.Kind{fleet.KindServer, fleet.KindEntry} {
		docs, _, err := etcd.List(ctx, r.client, Prefix, string(kind)+"/")
		if err != nil {
			return nil, err
		}
		set := document.NewSet()
		for _, d := range docs {
			_ = set.Put(d.Key, d.Value, d.Revision) // one that is not valid has no address
			switch n := set.Noun(d.Key).(type) {
			case *fleet.Server:
				addresses = append(addresses, AdminAddress(n.Admin, n.Address))
			case *fleet.EntryNode:
				addresses = append(addresses, AdminAddress(n.Admin, n.Address))
			}
		}
	}
	return addresses, nil
}

// AdminAddress returns where an admin listener is reached. One that is bound to the wildcard address is reached at the host of the node's
// other listener.
func AdminAddress(admin, address string) string {
	host, port, err := net.SplitHostPort(admin)
	if err != nil || !net.ParseIP(host).IsUnspecified() {
		return admin
	}
	other, _, err := net.SplitHostPort(address)
	if err != nil || net.ParseIP(other).IsUnspecified() {
		other = "127.0.0.1"
	}
	return net.JoinHostPort(other, port)
}

// heldAt returns the deletions that a node holds back; none if it does not answer.
func heldAt(ctx context.Context, address string) []string {
	ctx, cancel := context.WithTimeout(ctx, heldTimeout)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/debug/config", http.NoBody)
	if err != nil {
		return nil
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	var page struct {
		PendingDeletions []string `json:"pending_deletions"`
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxHeldPage)).Decode(&page); err != nil {
		return nil
	}
	return page.PendingDeletions
}
