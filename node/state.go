package node

import (
	"slices"
	"time"

	"colonnade/accounts/jwt"
	"colonnade/admin/api"
	"colonnade/analytics/capture"
	"colonnade/entry"
	"colonnade/fleet"
	"colonnade/problems"
)

// ConfigState is the page /debug/config: how fresh a node's documents are, and which of them are not in force as they
// are in etcd. Its lists are never null in JSON.
type ConfigState struct {
	Node             string               `json:"node"`
	Version          string               `json:"version"`          // of the software
	Source           string               `json:"source,omitempty"` // of the documents, such as "files at /etc/colonnade"; empty = etcd
	Revision         int64                `json:"revision"`         // of etcd, as far as the node has followed it; of other sources, how often documents have changed
	AgeSeconds       float64              `json:"age_seconds"`      // since the last message of etcd, or since the last look at the files
	Rejected         []fleet.Rejection    `json:"rejected"`
	Conflicts        []fleet.Conflict     `json:"conflicts"`
	PendingDeletions []string             `json:"pending_deletions"`        // keys deleted in etcd that stay in force until the deletion is confirmed
	HeldDeletions    []fleet.HeldDeletion `json:"held_deletions,omitempty"` // how those vanished, in the same order
	ExpiredLeases    []string             `json:"expired_leases"`           // keys whose leases have expired and that stay in force for a while

	Staged *fleet.StagedChange `json:"staged,omitempty"` // absent: none, or a node of an older version

	Drain        *api.NodeDrain       `json:"drain,omitempty"`      // by an operator, while the process goes on; absent: none
	Redis        *RedisState          `json:"redis,omitempty"`      // absent: limits are not shared through Redis
	FleetKeys    *FleetKeyState       `json:"fleet_keys,omitempty"` // absent: a process that has no other nodes, or a node of an older version
	Certificates []CertificateState   `json:"certificates"`
	Issuers      []jwt.State          `json:"issuers,omitempty"`    // of tokens, as an entry knows them
	Captures     []capture.State      `json:"captures,omitempty"`   // of requests with their content, in force at an entry
	Unresponsive []entry.Unresponsive `json:"unresponsive_servers"` // colo servers that have not answered the last request of an entry
	Sinks        []SinkState          `json:"sinks,omitempty"`      // to which the node sends its events
	LostEvents   []string             `json:"lost_events"`          // for each kind of event that was lost in the last minutes: how many, and why

	UnreachedColos []entry.ObservedColo `json:"unreached_colos"` // those that stand last in the plans of an entry, since no server of them was reached

	Records    []RecordProblem `json:"records"`     // of processes of the colo, which cannot be read as a whole
	WrittenOff int             `json:"written_off"` // records that were deleted since the start because their processes were silent

	Problems []problems.Problem `json:"problems"` // all that the node knows of; null = it is of a version that does not report them
}

// RecordProblem is a record that cannot be read as a whole. It blocks the engines that can be read of it.
type RecordProblem struct {
	Key     string `json:"key"` // without the prefix
	Problem string `json:"problem"`
}

// CertificateState is the validity of a certificate in force.
type CertificateState struct {
	Listener string    `json:"listener"`          // public or peer
	Name     string    `json:"name,omitempty"`    // of the host, if the certificate is one by ACME; else it is in files
	Begins   time.Time `json:"begins,omitzero"`   // zero = there is none yet, which only one by ACME can be
	Expires  time.Time `json:"expires,omitzero"`  // likewise
	Problem  string    `json:"problem,omitempty"` // why there is none, or none is made in its place, and what to do
}

// configPage returns the state with the problems.
func (r *runtime) configPage() ConfigState {
	c := r.configState()
	c.Problems = r.problems()
	return c
}

// configState returns the state without the problems.
func (r *runtime) configState() ConfigState {
	s := r.watcher.State()
	c := ConfigState{
		Node: r.config.Node, Version: Version(), Source: r.source, Revision: s.Revision, AgeSeconds: s.Age.Seconds(),
		Rejected: notNil(s.Rejected), Conflicts: notNil(s.Conflicts), PendingDeletions: notNil(s.PendingDeletions), HeldDeletions: s.HeldDeletions, ExpiredLeases: notNil(s.ExpiredLeases), Staged: s.Staged,
		Certificates: []CertificateState{}, Unresponsive: []entry.Unresponsive{}, UnreachedColos: []entry.ObservedColo{}, LostEvents: []string{},
		Records: []RecordProblem{}, FleetKeys: r.keys.state(), Redis: r.redisState(), Drain: r.maintenance.draining(),
	}
	c.Sinks = r.sinks.states()
	for _, err := range r.log.Problems() {
		c.LostEvents = append(c.LostEvents, err.Error())
	}
	for _, states := range r.certificates {
		c.Certificates = append(c.Certificates, states()...)
	}
	if r.siblings != nil {
		for _, record := range r.siblings.keeper.Problems() {
			c.Records = append(c.Records, RecordProblem{Key: fleet.KindRecord.Key(r.siblings.colo, record.Node, record.Boot), Problem: record.Problem})
		}
		c.WrittenOff = r.siblings.keeper.Stats().WrittenOff
	}
	if r.entry != nil {
		c.Unresponsive, c.Issuers = notNil(r.entry.Unresponsive()), r.entry.Issuers()
		c.Captures = r.entry.Captures()
		c.UnreachedColos = slices.DeleteFunc(r.entry.Colos(), func(o entry.ObservedColo) bool { return !o.Unreached })
	}
	return c
}

// nodeState returns the state of the node.
func (r *runtime) nodeState() api.NodeState {
	s := api.NodeState{Node: r.config.Node, Document: r.document(), Version: Version(), Role: "serve"}
	s.State, s.Drain, s.Problem = r.maintenance.state()
	switch {
	case r.source == "" && r.entry != nil:
		s.Role = "entry"
	case r.siblings != nil:
		s.Role, s.Homes = "colo", r.homes()
	}
	if r.entry != nil {
		s.InFlight = r.entry.InFlight()
	} else if r.colo != nil {
		s.InFlight = r.colo.InFlight()
	}
	return s
}

// homes returns the pools with engines whose home is this server, sorted.
func (r *runtime) homes() []string {
	var here []string
	t := r.watcher.Table()
	for _, p := range t.Pools() {
		if len(t.Endpoints(r.siblings.colo, p.Name)) > 0 && r.siblings.keeper.Home(p.Name).Here {
			here = append(here, p.Name)
		}
	}
	slices.Sort(here)
	return here
}

// fleetState is the page /debug/fleet.
type fleetState struct {
	fleet.TableDump
	Colos []entry.ObservedColo `json:"colos,omitempty"` // what an entry has observed of each
}

func (r *runtime) fleetState() fleetState {
	s := fleetState{TableDump: r.watcher.Table().Dump(r.watcher.Watches)}
	if r.entry != nil {
		s.Colos = r.entry.Colos()
	}
	return s
}

// notNil returns a copy of list that is not null in JSON.
func notNil[T any](list []T) []T { return append([]T{}, list...) }
