package main

import (
	"fmt"
	"slices"
	"strings"

	"colonnade/change"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/homes"
	"colonnade/problems"
	"colonnade/reasons"
)

// recordState is the record of a colo server's process in etcd; see package homes.
type recordState struct {
	Key        string `json:"key"` // the first of its two keys
	Colo       string `json:"colo"`
	Process    string `json:"process"` // node/boot
	Owns       int    `json:"owns"`    // engines that the process owns or wants to own
	Held       int    `json:"held"`    // requests that it has on others
	Registered bool   `json:"registered"`
	Problem    string `json:"problem,omitempty"` // why it cannot be read as a whole

	record homes.Record
}

const (
	recordFolder = string(fleet.KindRecord) + "/"
	heldSuffix   = "/held" // of the second key of a record
)

// parseRecordKey returns the first key of the record that a key belongs to, its colo and its process.
func parseRecordKey(key string) (first, colo string, p homes.Process, ok bool) {
	first = strings.TrimSuffix(key, heldSuffix)
	names := strings.Split(first, "/")
	if len(names) != 4 || !change.IsRecordKey(key) || slices.Contains(names, "") {
		return "", "", homes.Process{}, false
	}
	return first, names[1], homes.Process{Node: names[2], Boot: names[3]}, true
}

// recordsIn returns the records in etcd, sorted by key. servers are the registered ones. A key that no record can have is returned as a
// record with a problem.
func recordsIn(docs []etcd.Stored, servers []*fleet.Server) []recordState {
	type values struct {
		owns, held []byte
		revision   int64
	}
	found, wrong := map[string]*values{}, []recordState{}
	for _, d := range docs {
		first, _, _, ok := parseRecordKey(d.Key)
		switch v := found[first]; {
		case !change.IsRecordKey(d.Key):
			continue
		case !ok:
			wrong = append(wrong, recordState{Key: d.Key, Problem: "the key of a record is " + recordFolder + "<colo>/<node>/<boot>, or that with " + heldSuffix})
			continue
		case v == nil:
			found[first] = &values{}
		}
		v := found[first]
		v.revision = max(v.revision, d.Revision)
		if d.Key == first {
			v.owns = notNil(d.Value)
		} else {
			v.held = notNil(d.Value)
		}
	}
	records := wrong
	for first, v := range found {
		_, colo, p, _ := parseRecordKey(first)
		r := homes.ParseRecord(p, v.owns, v.held)
		r.Revision = v.revision
		s := recordState{Key: first, Colo: colo, Process: p.String(), Owns: len(r.Owns), Problem: r.Problem, record: r}
		for _, n := range r.Held {
			s.Held += n
		}
		s.Registered = slices.ContainsFunc(servers, func(s *fleet.Server) bool { return s.Colo == colo && s.Node == p.Node && s.Boot == p.Boot })
		records = append(records, s)
	}
	slices.SortFunc(records, func(a, b recordState) int { return strings.Compare(a.Key, b.Key) })
	return records
}

// notNil returns the value of a key that is there: an empty one differs from none.
func notNil(value []byte) []byte { return append([]byte{}, value...) }

// blocks says what a record keeps other servers from.
func (r *recordState) blocks() string {
	return fmt.Sprintf("the %s that it owns and the %s that it holds on others", count(r.Owns, "engine"), count(r.Held, "request"))
}

// addRecords adds what is wrong with records, of those that a query includes.
func addRecords(l *problems.List, s *fleetState, q *poolQuery) {
	for i := range s.Records {
		r := &s.Records[i]
		switch {
		case !q.includes(roleColo, r.Colo):
		case r.Problem != "":
			l.Errorf(reasons.RecordUnreadable, r.Key, "%s: cannot be read as a whole: %s; it may block engines. If its process has ended, run: colonnade config delete %s", r.Key, r.Problem, r.Key)
		case !r.Registered && r.Owns+r.Held > 0:
			l.Warnf(reasons.RecordOrphaned, r.Key, "%s: its process is not registered; until it has answered or certainly ended, or has been silent for 10 s, no other "+
				"server gets %s", r.Key, r.blocks())
		}
	}
}
