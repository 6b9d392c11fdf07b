package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
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
// holds back, or if a registered node does not say what it holds back. ignoreUnreachable leaves such nodes out.
func (r *runtime) checkConfirm(ctx context.Context, deleted []string, ignoreUnreachable bool) error {
	nodes, err := r.otherNodes(ctx)
	if err != nil {
		return err
	}
	held, unreachable := askHeld(ctx, nodes)
	held = append(held, r.watcher.State().PendingDeletions...)
	held = slices.DeleteFunc(held, func(key string) bool { return slices.Contains(deleted, key) })
	slices.Sort(held)
	if held = slices.Compact(held); len(held) > 0 {
		return fmt.Errorf("this would also confirm the deletion of %s, which nodes hold back: put those documents again, or confirm their deletion by "+
			"colonnade config confirm-deletions; then repeat this", wording.FirstOf(held))
	}
	if len(unreachable) > 0 && !ignoreUnreachable {
		return fmt.Errorf("this may also confirm deletions that other nodes hold back, since these did not say which: %s; ask a node that reaches their admin "+
			"listeners, or repeat this with ?ignore_unreachable=true", wording.FirstOf(unreachable))
	}
	return nil
}

// registeredNode is a node that may hold back deletions.
type registeredNode struct {
	document string // key
	name     string
	admin    string // address of its admin listener; empty = not known
}

// otherNodes returns all registered nodes but this one.
func (r *runtime) otherNodes(ctx context.Context) (nodes []registeredNode, err error) {
	for _, kind := range []fleet.Kind{fleet.KindServer, fleet.KindEntry} {
		docs, _, err := etcd.List(ctx, r.client, Prefix, string(kind)+"/")
		if err != nil {
			return nil, err
		}
		set := document.NewSet()
		for _, d := range docs {
			if d.Key == r.document() {
				continue
			}
			_ = set.Put(d.Key, d.Value, d.Revision) // one that is not valid has no address
			next := registeredNode{document: d.Key, name: d.Key[strings.LastIndexByte(d.Key, '/')+1:]}
			switch n := set.Noun(d.Key).(type) {
			case *fleet.Server:
				next.admin = AdminAddress(n.Admin, n.Address)
			case *fleet.EntryNode:
				next.admin = AdminAddress(n.Admin, n.Address)
			}
			nodes = append(nodes, next)
		}
	}
	return nodes, nil
}

// askHeld returns the keys that nodes hold back, and a line for each node that does not say which.
func askHeld(ctx context.Context, nodes []registeredNode) (held, unreachable []string) {
	var mu sync.Mutex // guards the results
	var asked sync.WaitGroup
	for _, n := range nodes {
		asked.Go(func() {
			keys, err := n.held(ctx)
			mu.Lock()
			defer mu.Unlock()
			if held = append(held, keys...); err != nil {
				unreachable = append(unreachable, fmt.Sprintf("%s (%v)", n.document, err))
			}
		})
	}
	asked.Wait()
	slices.Sort(unreachable)
	return held, unreachable
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

// held asks the node which deletions it holds back.
func (n registeredNode) held(ctx context.Context) ([]string, error) {
	if n.admin == "" {
		return nil, errors.New("its document has no address of an admin listener")
	}
	ctx, cancel := context.WithTimeout(ctx, heldTimeout)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.admin+"/debug/config", http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %d", n.admin, answer.StatusCode)
	}
	var page struct {
		Node             string   `json:"node"`
		PendingDeletions []string `json:"pending_deletions"`
	}
	err = json.NewDecoder(io.LimitReader(answer.Body, maxHeldPage)).Decode(&page)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the answer of %s: %w", n.admin, err)
	case page.Node != n.name: // as at a loopback address, which leads to this machine
		return nil, fmt.Errorf("at %s, node %.100q answers", n.admin, page.Node)
	case page.PendingDeletions == nil:
		return nil, fmt.Errorf("the answer of %s has no pending_deletions", n.admin)
	}
	return page.PendingDeletions, nil
}
