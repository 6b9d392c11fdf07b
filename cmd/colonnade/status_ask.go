package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"colonnade/colo"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
)

const (
	lookUpEvery   = 5 * time.Second  // how often etcd is asked for the servers
	lookUpTimeout = 10 * time.Second // the first time; later there is something to go on with
	lookUpAgain   = 2 * time.Second
)

// directory knows which colo servers there are.
type directory struct {
	etcd   string       // URLs; empty: the servers were given
	client *etcd.Client // nil likewise
	colo   string       // only servers of this colo; empty: all

	servers []registeredNode
	without []string // active colos that no server has registered for
	lost    string   // why etcd could not be asked again
	read    time.Time
	tried   time.Time // also in vain

	documents []etcd.Stored // all, for what servers say of those that are rejected
	bad       []rejected    // of these, what nobody accepts
}

func (d *directory) close() {
	if d.client != nil {
		d.client.Close()
	}
}

// update asks etcd for the servers. Once they are known, it is no error that it cannot.
func (d *directory) update(ctx context.Context) error {
	if d.client == nil || !d.read.IsZero() && time.Since(d.tried) < lookUpEvery {
		return nil
	}
	defer func() { d.tried = time.Now() }()
	timeout := lookUpTimeout
	if !d.read.IsZero() {
		timeout = lookUpAgain
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	docs, _, err := etcd.List(ctx, d.client, node.Prefix, "")
	if err == nil {
		d.fill(docs)
		d.lost, d.read = "", time.Now()
		return nil
	}
	err = etcdError(d.etcd, err)
	if d.read.IsZero() {
		return fmt.Errorf("%w; a server can be asked without etcd: -admin HOST:PORT", err)
	}
	d.lost = fmt.Sprintf("%v; the servers are those of %s", err, d.read.Format(time.TimeOnly))
	return nil
}

func (d *directory) fill(docs []etcd.Stored) {
	d.servers = slices.DeleteFunc(registeredNodes(docs), func(n registeredNode) bool {
		return n.Role != "colo" || d.colo != "" && n.Place != d.colo
	})
	d.without, d.documents, d.bad = nil, docs, readStore(docs).Rejected
	good := document.NewSet()
	for _, doc := range docs {
		if good.Put(doc.Key, doc.Value, doc.Revision) != nil {
			continue // it is told as a rejected one
		}
		c, ok := good.Noun(doc.Key).(*fleet.Colo)
		if ok && c.State == fleet.StateActive && (d.colo == "" || d.colo == c.Name) &&
			!slices.ContainsFunc(d.servers, func(n registeredNode) bool { return n.Place == c.Name }) {
			d.without = append(d.without, c.Name)
		}
	}
}

// fleetStatus is what colo servers say of their pools.
type fleetStatus struct {
	Etcd    string         `json:"etcd,omitempty"`
	Time    time.Time      `json:"time"`
	Servers []serverStatus `json:"servers"`

	Rejected []rejected `json:"rejected"` // documents; empty if etcd was not asked
	Wrong    []string   `json:"wrong"`    // in words, first of Rejected

	paces map[string]pace // by paceKey
}

// serverStatus is one colo server.
type serverStatus struct {
	registeredNode
	NotReady string           `json:"not_ready,omitempty"` // why, if it says so
	Pools    []colo.PoolState `json:"pools"`

	asked  time.Time         // when it answered
	config *node.ConfigState // nil if it does not say
}

// look asks servers for their pools.
type look struct {
	options   statusOptions
	directory *directory
	asker     asker
	before    map[string]sample // of the last time
}

// take asks all servers at once.
func (l *look) take(ctx context.Context) (*fleetStatus, error) {
	if err := l.directory.update(ctx); err != nil {
		return nil, err
	}
	s := &fleetStatus{Etcd: l.directory.etcd, Servers: []serverStatus{}, Wrong: []string{}}
	for _, n := range l.directory.servers {
		s.Servers = append(s.Servers, serverStatus{registeredNode: n})
	}
	var asked sync.WaitGroup
	for i := range s.Servers {
		asked.Go(func() { l.ask(ctx, &s.Servers[i]) })
	}
	asked.Wait()
	s.Time = time.Now()
	s.Rejected = l.directory.rejected(s.Servers)
	s.judge(l)
	s.paces = l.pace(s)
	return s, ctx.Err()
}

// ask asks one server.
func (l *look) ask(ctx context.Context, n *serverStatus) {
	n.Pools = []colo.PoolState{}
	var pools []colo.PoolState
	err := l.asker.page(ctx, n.Admin, fmt.Sprintf("/debug/pools?accounts=%d", l.options.accounts), &pools)
	switch {
	case err != nil:
	case n.Document == "" && len(pools) > 0: // nobody has said who it is
		n.Node, n.Place = pools[0].Node, pools[0].Colo
	case len(pools) > 0 && pools[0].Node != "" && pools[0].Node != n.Node:
		err = anotherNode(pools[0].Node, n.Admin)
	case len(pools) > 0 && pools[0].Colo != "" && pools[0].Colo != n.Place:
		err = anotherNode(pools[0].Node+" of colo "+pools[0].Colo, n.Admin)
	}
	if err != nil {
		n.Unknown = err.Error()
		return
	}
	n.asked = time.Now()
	for _, p := range pools {
		p.Colo, p.Node = n.Place, n.Node // which servers of an older version do not say
		if (l.options.pool == "" || p.Pool == l.options.pool) && (l.options.colo == "" || p.Colo == l.options.colo) {
			n.Pools = append(n.Pools, p)
		}
	}
	n.NotReady = l.askReady(ctx, n.Admin)
	if n.Document != "" {
		n.config, _ = askConfig(ctx, l.asker, &nodeStatus{registeredNode: n.registeredNode}) // config status tells why it cannot
	}
}

// rejected returns the documents that are not in force, with what the servers say of them.
func (d *directory) rejected(servers []serverStatus) []rejected {
	s := &status{Rejected: append([]rejected{}, d.bad...)}
	for _, n := range servers {
		s.Nodes = append(s.Nodes, nodeStatus{registeredNode: n.registeredNode, Config: n.config})
	}
	s.readNodes(d.documents)
	return s.Rejected
}

// askReady returns why a server is not ready; empty if it is.
func (l *look) askReady(ctx context.Context, address string) string {
	answer, err := l.asker.get(ctx, address, "/health/ready")
	if err != nil {
		return "its page /health/ready cannot be asked: " + err.Error()
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return ""
	case http.StatusServiceUnavailable:
		why, _ := bufio.NewReader(io.LimitReader(answer.Body, 1<<10)).ReadString('\n')
		return cmp.Or(strings.TrimSpace(why), "it does not say why")
	}
	return fmt.Sprintf("its page /health/ready answers with %d", answer.StatusCode)
}

// judge says in words what is wrong.
func (s *fleetStatus) judge(l *look) {
	wrong := func(format string, args ...any) { s.Wrong = append(s.Wrong, fmt.Sprintf(format, args...)) }
	for _, r := range s.Rejected {
		wrong("%s; see colonnade config status", r.text())
	}
	if l.directory.lost != "" {
		wrong("%s", l.directory.lost)
	}
	for _, name := range l.directory.without {
		wrong("colo %s: no server has registered: there is none, or it has lost etcd for longer than its lease", name)
	}
	for i := range s.Servers {
		switch n := &s.Servers[i]; {
		case n.Unknown != "":
			wrong("%s%s", n.title(), n.unasked())
		case n.NotReady != "" && n.State != fleet.StateDraining && n.NotReady != "draining":
			wrong("%sis not ready: %s", n.title(), n.NotReady)
		}
	}
	if none := s.matchless(l); none != "" {
		wrong("%s", none)
	}
}

// matchless says that there is nothing of what was asked for, if so.
func (s *fleetStatus) matchless(l *look) string {
	known, pools, unknown := []string{}, 0, 0
	for _, n := range s.Servers {
		known = append(known, n.Place)
		pools += len(n.Pools)
		if n.Unknown != "" {
			unknown++
		}
	}
	colo, pool := l.options.colo, l.options.pool
	switch {
	case len(s.Servers) == 0 && colo != "" && !slices.Contains(l.directory.without, colo):
		return fmt.Sprintf("no server of a colo %q has registered", colo)
	case len(s.Servers) == 0 && colo == "" && len(l.directory.without) == 0:
		return "no colo server has registered"
	case len(s.Servers) > 0 && colo != "" && !slices.Contains(known, colo) && unknown < len(s.Servers):
		return fmt.Sprintf("no server that was asked is of a colo %q, but of %s", colo, some(slices.Compact(known)))
	case pool != "" && pools == 0 && unknown == 0 && len(s.Servers) > 0:
		return fmt.Sprintf("no server has a pool %q in %s", pool, some(slices.Compact(known)))
	}
	return ""
}

// title is how a server is called at the beginning of a sentence.
func (n *serverStatus) title() string {
	if n.Document == "" {
		return ""
	}
	return n.Document + ": "
}
