package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// tooQuiet is how long a node may have heard nothing from etcd. It asks by its own clock every few seconds, and after 15 it looks
// for another connection.
const tooQuiet = 20 * time.Second

// judge says in words what is wrong, and what may be so by intent. newest is the store's revision after the nodes were asked.
func (s *status) judge(newest int64) {
	s.Wrong, s.Warnings = []string{}, []string{}
	for _, r := range s.Rejected {
		s.Wrong = append(s.Wrong, r.text())
	}
	if s.Unserved {
		s.Wrong = append(s.Wrong, "no model can be served: of the documents colos/… none is active; every request is answered with 503")
	}
	var v verdict
	v.conflicts(s.Conflicts)
	s.Wrong, s.Warnings = append(s.Wrong, v.wrong...), append(s.Warnings, v.odd...)
	for _, n := range s.Nodes {
		s.Wrong = append(s.Wrong, n.wrong(newest)...)
	}
	for _, h := range heldBy(s.Nodes) {
		s.Wrong = append(s.Wrong, h.text()+"; to confirm that they are meant: colonnade config confirm-deletions")
	}
	for _, d := range s.Dangling {
		s.Warnings = append(s.Warnings, danglingText(d))
	}
	s.Warnings = append(s.Warnings, s.odd...)
	now := time.Now()
	for _, n := range s.Nodes {
		if n.Config == nil {
			continue
		}
		expired, soon := n.expiring(now)
		s.Wrong, s.Warnings = append(s.Wrong, expired...), append(s.Warnings, soon...)
		s.Warnings = append(s.Warnings, n.unreached(now)...)
	}
	for _, n := range s.Nodes {
		if n.Config != nil && len(n.Config.ExpiredLeases) > 0 {
			s.Warnings = append(s.Warnings, fmt.Sprintf("%s: in force although their leases ran out: %s", n.Document, some(n.Config.ExpiredLeases)))
		}
	}
}

func (r *rejected) text() string {
	e := document.InvalidError{Key: fmt.Sprintf("%s (revision %d)", r.Key, r.Revision), Field: r.Field, Value: r.Value, Reason: r.Reason}
	text := e.Error()
	if len(r.LastGood) > 0 {
		text += "; " + some(r.LastGood) + " " + oneMany(len(r.LastGood), "goes", "go") + " on with the last good version"
		if r.InForce > 0 {
			text += fmt.Sprintf(", of revision %d", r.InForce)
		}
	}
	if len(r.Without) > 0 {
		text += "; " + some(r.Without) + " " + oneMany(len(r.Without), "has", "have") + " none"
	}
	return text
}

// wrong says what is wrong with a node, but for what it holds back.
func (n *nodeStatus) wrong(newest int64) []string {
	c := n.Config
	if c == nil {
		return []string{n.Document + ": " + n.unasked()}
	}
	var wrong []string
	if age := time.Duration(c.AgeSeconds * float64(time.Second)); age > tooQuiet {
		wrong = append(wrong, fmt.Sprintf("%s: has not heard from etcd for %s, and goes on with the documents of revision %d", n.Document, brief(age), c.Revision))
	}
	if c.Revision > newest {
		wrong = append(wrong, fmt.Sprintf("%s: has heard of revision %d, and etcd is at %d: it follows another etcd, or this one was restored", n.Document, c.Revision, newest))
	}
	return wrong
}

// soon is when it is told that a certificate expires, if its last tenth has begun: what replaces certificates has failed by then.
const soon = 14 * 24 * time.Hour

// expiring says which certificates of a node have expired, and which are about to.
func (n *nodeStatus) expiring(now time.Time) (expired, expireSoon []string) {
	for _, c := range n.Config.Certificates {
		left := c.Expires.Sub(now)
		flags := "-tls-cert and -tls-key"
		if c.Listener == "peer" {
			flags = "-peer-tls-cert and -peer-tls-key"
		}
		switch {
		case left <= 0:
			expired = append(expired, fmt.Sprintf("%s: its %s certificate has expired %s ago: others refuse it; replace the files of %s",
				n.Document, c.Listener, inDays(-left), flags))
		case left < soon && left < c.Expires.Sub(c.Begins)/10:
			expireSoon = append(expireSoon, fmt.Sprintf("%s: its %s certificate expires in %s, at %s; replace the files of %s",
				n.Document, c.Listener, inDays(left), c.Expires.UTC().Format("2006-01-02 15:04 UTC"), flags))
		}
	}
	return expired, expireSoon
}

// inDays writes a duration that may be days.
func inDays(d time.Duration) string {
	if days := int(d.Hours() / 24); days >= 2 {
		return count(days, "day")
	}
	return brief(d)
}

// longAgo is when it does not matter any more that a colo was not reached: nobody has tried since.
const longAgo = 10 * time.Minute

// unreached says which colos an entry does not reach.
func (n *nodeStatus) unreached(now time.Time) []string {
	var texts []string
	for _, u := range n.Config.Unreached {
		if ago := now.Sub(u.Last); ago < longAgo {
			texts = append(texts, fmt.Sprintf("%s: has not reached colo %s for %s, %s, the last %s ago: %s",
				n.Document, u.Colo, inDays(now.Sub(u.Since)), count(u.Times, "time"), brief(max(ago, 0)), u.Why))
		}
	}
	return texts
}

// heldBack is one kind of documents whose deletions nodes hold back. Keys and nodes are in the order in which they were first
// seen.
type heldBack struct {
	kind        fleet.Kind
	keys, nodes []string
}

// heldBy returns what is held back, sorted by kind.
func heldBy(nodes []nodeStatus) []*heldBack {
	kinds := map[fleet.Kind]*heldBack{}
	for _, n := range nodes {
		if n.Config == nil {
			continue
		}
		for _, key := range n.Config.PendingDeletions {
			name, _, _ := strings.Cut(key, "/")
			kind := fleet.Kind(name)
			h := kinds[kind]
			if h == nil {
				h = &heldBack{kind: kind}
				kinds[kind] = h
			}
			if !slices.Contains(h.keys, key) {
				h.keys = append(h.keys, key)
			}
			if !slices.Contains(h.nodes, n.Node) {
				h.nodes = append(h.nodes, n.Node)
			}
		}
	}
	var all []*heldBack
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		all = append(all, kinds[kind])
	}
	return all
}

func (h *heldBack) text() string {
	return fmt.Sprintf("%s of %s held back by %s: %s", count(len(h.keys), "deletion"), h.kind, some(h.nodes), some(h.keys))
}
