package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"colonnade/colo"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/node"
	"colonnade/problems"
)

const (
	listInterval  = 5 * time.Second // between two lists of the documents in etcd
	listTimeout   = 10 * time.Second
	relistTimeout = 2 * time.Second // once the nodes are known from an earlier list
)

// fleetState is what etcd holds and what the nodes report. The flag -json of status and of config status prints it.
type fleetState struct {
	Time time.Time `json:"time"`
	Etcd string    `json:"etcd,omitempty"` // URLs; empty if the nodes were given by address
	documentState
	Nodes    []nodeState        `json:"nodes"`
	Problems []problems.Problem `json:"problems"`

	entries []nodeState // whose problems the command reports beside those of the colo servers that it shows

	keyFaults []fleetKeyFault // of all nodes

	newest  int64  // revision of etcd after the nodes have answered
	listErr string // why the documents could not be listed again
}

// nodeState is a node and what it reports.
type nodeState struct {
	registration
	Error    string            `json:"error,omitempty"`     // why it could not be asked
	NotReady string            `json:"not_ready,omitempty"` // the reason that the node gives
	Behind   int64             `json:"behind"`              // revisions of etcd that it has not followed yet
	Config   *node.ConfigState `json:"config,omitempty"`
	Pools    []colo.PoolState  `json:"pools,omitempty"`

	answered time.Time
}

// poller asks etcd which nodes there are, and the nodes for their state.
type poller struct {
	etcd   string       // URLs
	client *etcd.Client // nil if the nodes are given
	pools  *poolQuery   // nil: all nodes are asked, but not for pools
	reader pageReader
	dialed bool // client is closed with the poller

	documents    documentState
	listed, last time.Time // the last list that succeeded, and the last attempt
	listErr      string
}

// poolQuery selects pools of colo servers. Entries are not asked then.
type poolQuery struct {
	colo, pool string // empty: all
	accounts   int    // how many of each pool
}

// poller returns a poller of the nodes at some admin addresses, separated by commas, or with none, of those that are registered in etcd,
// which is dialed. close closes both.
func (s *store) poller(admin string, pools *poolQuery) (*poller, error) {
	if admin != "" {
		p := newPoller("", nil, pools)
		for address := range strings.SplitSeq(admin, ",") {
			n := registration{Admin: address}
			if pools != nil {
				n.Role = roleColo
			}
			p.documents.nodes = append(p.documents.nodes, n)
		}
		return p, nil
	}
	client, err := s.dial()
	if err != nil {
		return nil, err
	}
	p := newPoller(s.endpoints, client, pools)
	p.dialed = true
	return p, nil
}

// newPoller returns a poller of the nodes that are registered in etcd, or with a nil client, of those that the caller adds
// to documents.nodes.
func newPoller(endpoints string, client *etcd.Client, pools *poolQuery) *poller {
	return &poller{etcd: endpoints, client: client, pools: pools, reader: newPageReader(pageTimeout), documents: newDocumentState(nil, 0)}
}

// close closes the connections to nodes, and that to etcd if it was dialed for the poller.
func (p *poller) close() {
	p.reader.client.CloseIdleConnections()
	if p.dialed {
		_ = p.client.Close()
	}
}

// poll asks all nodes at once. An etcd that does not answer is an error only as long as the nodes are not known.
func (p *poller) poll(ctx context.Context) (*fleetState, error) {
	if err := p.list(ctx); err != nil {
		return nil, err
	}
	s := &fleetState{Etcd: p.etcd, documentState: p.documents, Nodes: []nodeState{}, listErr: p.listErr}
	for _, r := range s.nodes {
		if p.pools.includes(r.Role, r.Place) {
			s.Nodes = append(s.Nodes, nodeState{registration: r})
		} else if r.Role == roleEntry && p.pools.all() && r.Admin != "" {
			s.entries = append(s.entries, nodeState{registration: r})
		}
	}
	var asked sync.WaitGroup
	for i := range s.Nodes {
		asked.Go(func() { p.ask(ctx, &s.Nodes[i], p.pools != nil) })
	}
	for i := range s.entries {
		asked.Go(func() { p.ask(ctx, &s.entries[i], false) }) // config status reports one that cannot be asked
	}
	asked.Wait()
	s.Time, s.newest = time.Now(), p.newestRevision(ctx)
	s.Problems = fleetProblems(s, p.pools)
	return s, ctx.Err()
}

// newestRevision returns the revision of etcd, which may be newer than the list, or the largest number if it is not known.
func (p *poller) newestRevision(ctx context.Context) int64 {
	if p.client == nil || p.listErr != "" {
		return math.MaxInt64
	}
	ctx, cancel := context.WithTimeout(ctx, relistTimeout)
	defer cancel()
	_, revision, err := etcd.List(ctx, p.client, node.Prefix, string(fleet.KindDefaults))
	if err != nil {
		return math.MaxInt64
	}
	return revision
}

// includes reports whether a node is asked. A server that was given by address does not have its place yet.
func (q *poolQuery) includes(role, place string) bool {
	return q == nil || role == roleColo && (q.colo == "" || place == "" || place == q.colo)
}

// all reports whether a query selects everything.
func (q *poolQuery) all() bool { return q != nil && q.colo == "" && q.pool == "" }

// list asks etcd for the documents, unless it has done so a moment ago.
func (p *poller) list(ctx context.Context) error {
	if p.client == nil || time.Since(p.last) < listInterval {
		return nil
	}
	p.last = time.Now()
	timeout := relistTimeout
	if p.listed.IsZero() {
		timeout = listTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	docs, revision, err := etcd.List(ctx, p.client, node.Prefix, "")
	switch {
	case err == nil:
		p.documents = newDocumentState(docs, revision)
		p.listed, p.listErr = p.last, ""
	case p.listed.IsZero():
		return etcdError(p.etcd, err)
	default:
		p.listErr = fmt.Sprintf("%v; the nodes are those of %s", etcdError(p.etcd, err), p.listed.Format(time.TimeOnly))
	}
	return nil
}

// ask reads a node's pages, with those of its pools if they are wanted.
func (p *poller) ask(ctx context.Context, n *nodeState, pools bool) {
	var c node.ConfigState
	err := p.reader.readJSON(ctx, n.Admin, "/debug/config", &c)
	if n.Document == "" {
		n.Node = c.Node
	} else if err == nil && c.Node != n.Node {
		err = fmt.Errorf("node %s answers there; %s", c.Node, addressHint(n.Admin))
	}
	if err == nil && pools {
		n.Pools, err = p.askPools(ctx, n)
	}
	if err == nil {
		n.NotReady, err = p.reader.readiness(ctx, n.Admin)
	}
	n.answered = time.Now()
	if err != nil {
		n.Error, n.Pools = err.Error(), nil
		return
	}
	n.Config, n.Behind = &c, max(0, p.documents.Revision-c.Revision)
	if c.Source != "" {
		n.Role = roleServe
	}
}

func (p *poller) askPools(ctx context.Context, n *nodeState) ([]colo.PoolState, error) {
	var pools []colo.PoolState
	err := p.reader.readJSON(ctx, n.Admin, fmt.Sprintf("/debug/pools?accounts=%d", p.pools.accounts), &pools)
	if n.Place == "" && len(pools) > 0 {
		n.Place = pools[0].Colo
	}
	return slices.DeleteFunc(pools, func(s colo.PoolState) bool {
		return p.pools.pool != "" && s.Pool != p.pools.pool || !p.pools.includes(n.Role, s.Colo)
	}), err
}
