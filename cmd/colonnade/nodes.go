package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/node"
)

const (
	askTimeout = 3 * time.Second
	maxPage    = 16 << 20
)

// nodeStatus is one node that has registered, and what it says of its documents.
type nodeStatus struct {
	Document string            `json:"document"` // its key
	Node     string            `json:"node"`
	Role     string            `json:"role"` // entry or colo
	Place    string            `json:"place,omitempty"`
	State    string            `json:"state,omitempty"`
	Version  string            `json:"version,omitempty"`
	Admin    string            `json:"admin,omitempty"`
	Unknown  string            `json:"unknown,omitempty"` // why it could not be asked
	Behind   int64             `json:"behind"`            // revisions of the store
	Config   *node.ConfigState `json:"config,omitempty"`
}

// registeredNodes returns the nodes among documents, in their order.
func registeredNodes(docs []etcd.Stored) []nodeStatus {
	good := fleet.NewDocuments()
	nodes := []nodeStatus{}
	for _, d := range docs {
		if good.Put(d.Key, d.Value, d.Revision) != nil {
			continue // told as a bad document
		}
		switch n := good.Noun(d.Key).(type) {
		case *fleet.Server:
			nodes = append(nodes, nodeStatus{
				Document: d.Key, Node: n.Node, Role: "colo", Place: n.Colo, State: n.State, Version: n.Version, Admin: reachable(n.Admin, n.Address),
			})
		case *fleet.EntryNode:
			nodes = append(nodes, nodeStatus{
				Document: d.Key, Node: n.Node, Role: "entry", Place: n.Region, State: n.State, Version: n.Version, Admin: reachable(n.Admin, n.Address),
			})
		}
	}
	return nodes
}

// reachable returns where an admin listener can be asked. One on all addresses of its machine is where the node's other
// listener is.
func reachable(admin, address string) string {
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

// askNodes asks all nodes at once for their /debug/config.
func askNodes(ctx context.Context, nodes []nodeStatus) {
	client := &http.Client{
		Timeout:       askTimeout,
		Transport:     &http.Transport{}, // no proxy stands before an admin listener
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	var asked sync.WaitGroup
	for i := range nodes {
		asked.Go(func() {
			config, err := askNode(ctx, client, nodes[i])
			if ctx.Err() != nil && nodes[i].Config != nil {
				return // broken off by us: what it said last stands
			}
			nodes[i].Config, nodes[i].Unknown = config, ""
			if err != nil {
				nodes[i].Unknown = err.Error()
			}
		})
	}
	asked.Wait()
}

func askNode(ctx context.Context, client *http.Client, n nodeStatus) (*node.ConfigState, error) {
	if n.Admin == "" {
		return nil, errors.New("it has registered no admin address: a node of an older version")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Admin+"/debug/config", nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, unreachable(n.Admin, err)
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, errors.New("it has no page /debug/config: a node of an older version, or something else listens there")
	default:
		return nil, fmt.Errorf("its page /debug/config answers with %d", answer.StatusCode)
	}
	config := &node.ConfigState{}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxPage)).Decode(config); err != nil {
		return nil, fmt.Errorf("its page /debug/config cannot be read: %w", err)
	}
	if config.Node != n.Node {
		return nil, fmt.Errorf("there, node %s answers; %s", shown(config.Node), elsewhere(n.Admin))
	}
	return config, nil
}

// unasked says why the node could not be asked.
func (n *nodeStatus) unasked() string {
	if n.Admin == "" {
		return "cannot be asked: " + n.Unknown
	}
	return "cannot be asked at " + n.Admin + ": " + n.Unknown
}

// unreachable says why an admin listener does not answer, without the URL, which stands beside it.
func unreachable(admin string, err error) error {
	var asking *url.Error
	var op *net.OpError
	switch {
	case errors.As(err, &asking) && asking.Timeout():
		err = fmt.Errorf("no answer within %s", askTimeout)
	case errors.As(err, &op):
		err = op.Err
	}
	if isLoopback(admin) {
		return fmt.Errorf("%w; %s", strip(err), elsewhere(admin))
	}
	return strip(err)
}

// strip takes the name of the system call from an error.
func strip(err error) error {
	if before, reason, ok := strings.Cut(err.Error(), ": "); ok && before == "connect" {
		return errors.New(reason)
	}
	return err
}

func isLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// elsewhere says what to do about an address that means another node here.
func elsewhere(admin string) string {
	if isLoopback(admin) {
		return "if the node is on another machine, run this there, or start it with -admin on an address that is reached from here"
	}
	return "the node that has registered this address is gone, or not the only one with it"
}
